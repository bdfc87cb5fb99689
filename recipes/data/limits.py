"""Refusal of files whose content does not fit into memory, before it is unpacked: kilobytes can hold terabytes."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path

from recipes.errors import DataError
from recipes.process.memory import size_text

_SHARE = 0.5                            # of the free memory; the rest is for the training
_COPIES = {".csv": 4, ".tsv": 4, ".json": 8, ".jsonl": 8, ".txt": 4}       # bytes in memory for one byte of the file
_CHUNK = 1 << 20


def free_memory() -> float:
    """Bytes that the system can give to this process without swapping; infinity where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    except OSError:
        return math.inf
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(sizes[0]) if sizes else math.inf


def fits(size: float) -> bool:
    """Whether so many bytes are free."""
    return size <= _SHARE * free_memory()


def check_fits(file: Path, size: float) -> None:
    """Args: size: bytes of memory for the content of the file.  Raises: DataError if they are not free."""
    if not fits(size):
        most = size_text(_SHARE * free_memory())
        raise DataError("data", "the content of the file does not fit into memory.",
                        {"file": file, "needs": f"at least {size_text(size)}", "may use": most},
                        fix="a smaller file, or more free memory; a packed file may be damaged.")


def check_file(file: Path) -> None:
    """Raises: DataError if a text, gzip or zip file does not fit.  Other exceptions: those of zipfile and gzip."""
    if file.suffix == ".npz":
        with zipfile.ZipFile(file) as archive:
            check_fits(file, sum(part.file_size for part in archive.infolist()))
    elif file.suffix == ".gz":
        check_fits(file, _unpacked(file))
    else:
        check_fits(file, _COPIES.get(file.suffix.lower(), 1) * file.stat().st_size)


def _unpacked(file: Path) -> float:
    """The size of the content of a gzip file; counting stops when it does not fit."""
    size, most = 0, _SHARE * free_memory()
    with gzip.open(file) as content:
        while size <= most and (chunk := content.read(_CHUNK)):
            size += len(chunk)
    return size
