"""Files of tensors in the format safetensors: the size of a header, the header in JSON, and the bytes of the arrays."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
           "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}
_NAMES = {name: key for key, name in _DTYPES.items()}


def read(file: Path) -> dict[str, np.ndarray]:
    """The tensors by name; they are mapped, and read from the disk when they are used.

    Raises: ValueError for a file whose header is not that of the format, or does not fit the size of the file.
    """
    data = np.memmap(file, np.uint8, "r") if file.stat().st_size else np.zeros(0, np.uint8)
    try:
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        return {name: _tensor(data[start:], **entry) for name, entry in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as err:
        raise bad("pretrained.load", "the file is not in the format safetensors", {"file": str(file), "cause": err},
                  "download it again; other formats are not read.", ValueError) from err


def _tensor(data: np.ndarray, dtype: str, shape: list[int], data_offsets: list[int]) -> np.ndarray:
    begin, end = data_offsets
    kind = jnp.dtype(_DTYPES[dtype])
    if not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"bytes {begin} to {end} of {len(data)} for {dtype}{shape}")
    return data[begin:end].view(kind).reshape(shape)


def write(file: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes tensors in the order of their names."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in sorted(tensors.items()):
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)                     # the arrays start at a multiple of 8 bytes
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in sorted(tensors.items()):
            out.write(np.ascontiguousarray(tensor).tobytes())
