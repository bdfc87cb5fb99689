"""Files in the safetensors format: the size of the header, the header in JSON, and the bytes of the arrays."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xnn.whole_files import whole_file

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
           "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
           "C64": "complex64", "BOOL": "bool"}
_NAMES = {name: key for key, name in _DTYPES.items()}

DTYPES = frozenset(_NAMES)                              # names of the dtypes that a file can hold


class _Unknown(Exception):
    """Raised for tensors of dtypes that cannot be read, such as fp8; `dtypes`: tensor -> its dtype in the file."""

    def __init__(self, dtypes: Mapping[str, str]) -> None:
        super().__init__(dtypes)
        self.dtypes = dtypes


class Contents(NamedTuple):
    """The contents of a file: tensors by name, and metadata strings by name."""

    tensors: dict[str, np.ndarray]
    metadata: dict[str, str]


def read(file: Path, caller: str = "safetensors.read", fix: str = "pass a whole file of this format.") -> Contents:
    """The contents of a file; the tensors are memory-mapped, and read from the disk when they are used.

    Args: caller, fix: prefix and `fix:` line of the error message.
    Raises: ValueError if the header is not in the format, or does not match the size of the file.
    """
    data = np.memmap(file, np.uint8, "r") if file.stat().st_size else np.zeros(0, np.uint8)
    try:
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:start].tobytes())
        metadata = header.pop("__metadata__", {})
        unknown = {name: entry["dtype"] for name, entry in header.items() if entry["dtype"] not in _DTYPES}
        if unknown:
            raise _Unknown(unknown)
        return Contents({name: _tensor(data[start:], **entry) for name, entry in header.items()}, dict(metadata))
    except _Unknown as err:
        name, dtype = next(iter(err.dtypes.items()))
        raise bad(caller, f"tensors of the dtype {dtype} are not read here",
                  {"file": str(file), "tensors": f"{len(err.dtypes)} of {len(header)}, first {name}"},
                  "convert the weights to bfloat16 or float32, with their scales if they are quantised.",
                  ValueError) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as err:
        raise bad(caller, "the file is not in the safetensors format", {"file": str(file), "cause": err}, fix,
                  ValueError) from err


def _tensor(data: np.ndarray, dtype: str, shape: list[int], data_offsets: list[int]) -> np.ndarray:
    begin, end = data_offsets
    kind = jnp.dtype(_DTYPES[dtype])
    if not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"bytes {begin} to {end} of {len(data)} for {dtype}{shape}")
    return data[begin:end].view(kind).reshape(shape)


def write(file: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors, in the order of their names, and metadata; if it fails, an existing file is unchanged.

    Args: metadata: strings by name; None: ``{"format": "pt"}``, which other readers expect.
    Raises: TypeError for a tensor of a dtype that the format does not have, and for metadata other than strings.
    """
    tensors = {name: np.asarray(tensor) for name, tensor in tensors.items()}
    _check_contents(tensors, metadata or {})
    header, end = {"__metadata__": {"format": "pt"} if metadata is None else dict(metadata)}, 0
    for name, tensor in sorted(tensors.items()):
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype.name], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)                     # the arrays start at a multiple of 8 bytes
    with whole_file(file, sync=False) as out:           # a sync takes a fifth of the time of a large file
        out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in sorted(tensors.items()):
            out.write(as_bytes(tensor))


def _check_contents(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    others = {name: str(tensor.dtype) for name, tensor in tensors.items() if tensor.dtype.name not in _NAMES}
    if others:
        raise bad("safetensors.write", "the format has no such dtype", others,
                  f"convert the tensors to one of its dtypes: {', '.join(sorted(_NAMES))}.")
    if numbers := {name: repr(text) for name, text in metadata.items() if not isinstance(text, str)}:
        raise bad("safetensors.write", "metadata must be strings, because other readers refuse the file", numbers,
                  "convert them: str(step), or json.dumps(settings).")


def as_bytes(tensor: np.ndarray) -> np.ndarray:
    """The bytes of an array as in a file, little-endian: uint8[n]."""
    tensor = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False) if tensor.dtype.byteorder == ">" else tensor
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
