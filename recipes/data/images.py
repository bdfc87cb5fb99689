"""Labelled images as arrays: the digits of scikit-learn, a folder of files, or a set of Hugging Face ``datasets``."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from recipes.batches import Rows
from recipes.config import AbsolutePath, Count, Fraction, Frozen, Index
from recipes.data.facts import listed
from recipes.data.limits import fits
from recipes.data.splits import inputs_of, repeated_fact
from recipes.errors import DataError
from recipes.lazy import datasets, pil_image, pil_ops, sk_datasets
from recipes.names import composed, plain_path, printable

KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF",
         ".tiff": "TIFF"}                                     # the formats of Pillow; others are not opened
# Folders that programs add: of archives made on macOS, and of network drives.
FOREIGN = ("__MACOSX", "@eaDir", "lost+found", "$RECYCLE.BIN", "System Volume Information")
OWN_SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}

MOST_SHOWN = 10                                               # damaged files in a message

# ---- sections of a config ------------------------------------------------------------------------------------------


def _absolute_if_local(name: str) -> str:
    """An absolute path, since a run may be resumed with another current folder; names on the hub are not changed."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name


class _Split(Frozen):
    test_fraction: Fraction | None = None
    """Share of each class for the test; none: 0.2, unless the set has its own test split."""
    val_fraction: Fraction | None = None
    """Share of the rest of each class for validation; none: 0.1, unless the set has its own split."""
    split_seed: Index = 0
    """Seed of the random split."""


class Digits(_Split):
    """1797 handwritten digits, grey, 8 x 8, which scikit-learn contains (a part of UCI's optdigits)."""

    name: Literal["digits"] = "digits"
    """Which set."""
    image: Count = 8
    """Height and width that images are resized to."""
    channels: ClassVar[int] = 1


class _Files(_Split):
    image: Count = 32
    """Height and width that images are resized to."""
    channels: Literal[1, 3] = 3
    """1: grey; 3: colour."""


class Folder(_Files):
    """Images in a folder for each class, at any depth; or such folders in train/, and optionally in val/ and test/."""

    name: Literal["folder"] = "folder"
    """Which set."""
    path: AbsolutePath
    """The folder that contains these folders."""
    damaged: Literal["refuse", "leave_out"] = "refuse"
    """Images that cannot be read: an error, or left out, and listed before training."""


class Hub(_Files):
    """A local image set of Hugging Face: files, a folder of ``save_to_disk``, or a name in the cache."""

    name: Literal["hub"] = "hub"
    """Which set."""
    path: Annotated[str, AfterValidator(_absolute_if_local)]
    """Its path, or its name on the hub; nothing is downloaded unless the environment has HF_HUB_OFFLINE=0."""
    subset: str | None = None
    """The name of one of its configurations."""
    image_key: str = "image"
    """The column of images."""
    label_key: str = "label"
    """The column of classes."""


ImageSet = Annotated[Digits | Folder | Hub, Field(discriminator="name")]

# ---- arrays --------------------------------------------------------------------------------------------------------


class Images(NamedTuple):
    """Examples.

    Attributes:
      x: u8[n, image, image, channels].
      y: i32[n], ids of classes.
      sizes: i32[n, 2], widths and heights before they were resized.
    """

    x: np.ndarray
    y: np.ndarray
    sizes: np.ndarray


class LabelledImages(NamedTuple):
    """A set of images.

    Attributes:
      classes: names.
      splits: "train", and "val" and "test" where they have examples.
      summary: facts that a run prints at its start, by name.
    """

    classes: list[str]
    splits: dict[str, Images]
    summary: dict[str, str]

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Split -> ids of the classes of its images."""
        return {split: part.y for split, part in self.splits.items()}


class NamedRows(Rows):
    """`Rows` read from files.  Attributes: names: the file of each row; notes: files that were not read."""

    def __init__(self, names: Sequence[str], notes: Sequence[str] = (), **arrays: np.ndarray) -> None:
        super().__init__(**arrays)
        self.names, self.notes = list(names), tuple(notes)


def load_images(section: Digits | Folder | Hub) -> LabelledImages:
    """Reads the set that a section names.

    Raises: DataError if it is missing or unreadable, its classes do not fit, or a key has no effect on it.
    """
    classes, parts, notes = _READERS[section.name](section)
    splits = split_apart(parts, section)
    size = "x".join(map(str, parts["train"].x.shape[1:3])) + (", grey" if section.channels == 1 else ", colour")
    counts = ", ".join(f"{split} {len(part.y)}" for split, part in splits.items())
    sizes = np.concatenate([part.sizes for part in splits.values()])
    source = "digits of scikit-learn" if isinstance(section, Digits) else str(section.path)
    summary = {"dataset": source, "images": f"{len(sizes):,}, {size}, {len(classes)} classes",
               **_sizes_fact(sizes, section.image), **notes, "split": counts}
    summary |= repeated_fact({split: inputs_of(part.x) for split, part in splits.items()})
    return LabelledImages(classes, splits, summary)


def _sizes_fact(sizes: np.ndarray, image: int) -> dict[str, str]:
    """The sizes of images before they were resized, smallest and largest, if any was."""
    if (sizes == image).all():
        return {}
    order = np.argsort(sizes.prod(axis=1), kind="stable")
    least, most = ("x".join(map(str, sizes[i])) for i in (order[0], order[-1]))
    stretched = int((sizes[:, 0] != sizes[:, 1]).sum())
    words = f"; {stretched} of {len(sizes)} are not square, and are stretched" if stretched else ""
    return {"sizes": (least if least == most else f"{least} to {most}") + f", as stored{words}"}


def split_apart(parts: dict[str, Images], section: _Split) -> dict[str, Images]:
    """All splits; those missing in ``parts`` are taken from "train"."""
    splits, own = dict(parts), [split for split in ("test", "val") if split in parts]
    useless = [f"{split}_fraction" for split in own if getattr(section, f"{split}_fraction") is not None]
    if len(own) == 2 and section.split_seed:
        useless.append("split_seed")
    if useless:
        raise DataError("images", "the set has its own splits.", {f"task.data.{key}": "without effect"
                        for key in useless}, fix="leave these keys out.")
    for split, default in (("test", 0.2), ("val", 0.1)):
        if split not in own:
            fraction = getattr(section, f"{split}_fraction")
            rng = np.random.default_rng([section.split_seed, len(split)])
            chosen = stratified(splits["train"].y, default if fraction is None else fraction, rng)
            splits[split] = Images(*(a[chosen] for a in splits["train"]))
            splits["train"] = Images(*(a[~chosen] for a in splits["train"]))
    return {split: splits[split] for split in ("train", "val", "test") if split in splits and len(splits[split].y)}


def samples(images: LabelledImages, most: int = 12, of_all: int = 600) -> dict[str, np.ndarray]:
    """Class -> some of its images, of the training split first.  Args: most: of a class; of_all: of all together."""
    most = max(1, min(most, of_all // len(images.classes)))
    x, y = (np.concatenate([getattr(part, name) for part in images.splits.values()]) for name in ("x", "y"))
    return {name: x[np.flatnonzero(y == i)[:most]] for i, name in enumerate(images.classes[:of_all])}


def stratified(labels: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """bool[n]: a share of each class, drawn at random; at least one example of each class is not drawn."""
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        ids = rng.permutation(np.flatnonzero(labels == label))
        chosen[ids[:min(round(fraction * len(ids)), len(ids) - 1)]] = True
    return chosen


def moments(x: np.ndarray) -> dict[str, list[float]]:
    """Mean and deviation of each channel of pixels scaled to [0, 1]; the deviation of a constant channel is 1."""
    values, mean, deviation = np.arange(256) / 255, [], []
    for channel in range(x.shape[-1]):
        share = np.bincount(x[..., channel].ravel(), minlength=256) / (x.size // x.shape[-1])
        mean.append(float(share @ values))
        deviation.append(float(np.sqrt(share @ (values - mean[-1])**2)) or 1.0)
    return {"mean": mean, "deviation": deviation}


# ---- files ---------------------------------------------------------------------------------------------------------


def read_files(path: Path, image: int, channels: int) -> NamedRows:
    """One image file, or all in a folder and its subfolders, as ``NamedRows(x=u8[n, image, image, channels])``.

    Raises: DataError if there are no images, or one cannot be read.
    """
    inside = _images_in(path) if path.is_dir() else []
    files = [path] if path.is_file() else inside
    if not files:
        raise DataError("images", "there are no images to read.", {"path": path, "kinds": ", ".join(KINDS)},
                        fix="the path of an image, or of a folder that contains images.")
    names = [file.relative_to(path).as_posix() if inside else file.name for file in files]
    others = _left_out(path, set(files)) if inside else {}
    notes = [f"not read: {kind}: {count}" for kind, count in others.items()]
    return NamedRows(names, notes, x=_read_all(files, image, channels))


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in KINDS and not file.name.startswith(".") and file.is_file()


class _Picture(NamedTuple):
    """u8[image, image, channels], the width and height before it was resized, and whether parts were transparent."""

    pixels: np.ndarray
    size: tuple[int, int]
    transparent: bool


def _read_all(files: Sequence[Path], image: int, channels: int) -> np.ndarray:
    """u8[files, image, image, channels].  Raises: DataError that names the files that cannot be read."""
    pictures, damaged = _read_each(files, image, channels)
    _refuse_damaged(damaged, len(files), "whole image files, or remove these.")
    return np.stack([picture.pixels for picture in pictures])


def _read_each(files: Sequence[Path], image: int, channels: int) -> tuple[list[_Picture], dict[Path, str]]:
    """(The files that can be read, the others with the reason)."""
    def read(file: Path) -> _Picture | str:
        try:
            with pil_image.open(file, formats=sorted({*KINDS.values()})) as picture:
                if not fits(4 * picture.width * picture.height):
                    return f"{picture.width} x {picture.height} pixels do not fit into memory"
                return _Picture(pixels_of(picture, image, channels), picture.size, _is_transparent(picture))
        except Exception as err:                              # decoders raise errors of many classes
            return str(err) or type(err).__name__

    with ThreadPoolExecutor() as pool:
        results = list(pool.map(read, files))
    return ([each for each in results if not isinstance(each, str)],
            {file: each for file, each in zip(files, results, strict=True) if isinstance(each, str)})


def _is_transparent(picture: pil_image.Image) -> bool:
    """Whether a viewer shows a part of the image in another colour than the file has there."""
    return picture.has_transparency_data and picture.convert("RGBA").getchannel("A").getextrema()[0] < 255


def _refuse_damaged(damaged: Mapping[Path, str], n_files: int, fix: str) -> None:
    """Raises: DataError if there are damaged files."""
    if damaged:
        some = {str(file): why.replace(f" {str(file)!r}", "")
                for file, why in itertools.islice(damaged.items(), MOST_SHOWN)}
        more = {"and": f"{len(damaged) - MOST_SHOWN} more"} if len(damaged) > MOST_SHOWN else {}
        raise DataError("images", f"{len(damaged)} of {n_files} images cannot be read.", some | more, fix=fix)


def pixels_of(picture: pil_image.Image, image: int, channels: int) -> np.ndarray:
    """u8[image, image, channels] of a Pillow image of any size and kind, its first frame; transparency is ignored."""
    picture = pil_ops.exif_transpose(picture)
    if picture.mode.startswith("I"):                          # 16 bits, which Pillow's own conversion clips to 255
        picture = pil_image.fromarray(np.clip(np.asarray(picture) // 257, 0, 255).astype(np.uint8))
    elif picture.mode == "F":                                 # floats, as TIFF files have them: from 0 to 1, or to 255
        values = np.nan_to_num(np.asarray(picture))
        values = values * (255 if 0 < values.max(initial=0) <= 1 else 1)
        picture = pil_image.fromarray(np.clip(np.round(values), 0, 255).astype(np.uint8))
    picture = picture.convert("L" if channels == 1 else "RGB")
    if picture.size != (image, image):
        picture = picture.resize((image, image), pil_image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(image, image, channels)


# ---- the three sets ------------------------------------------------------------------------------------------------

_Read = tuple[list[str], dict[str, Images], dict[str, str]]   # classes, the set's own splits, facts for the summary


def _read_digits(section: Digits) -> _Read:
    digits = sk_datasets.load_digits()
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)
    x = np.stack([pixels_of(pil_image.fromarray(each), section.image, 1) for each in grey])
    sizes = np.full((len(x), 2), section.image, np.int32)
    return [str(name) for name in digits.target_names], {"train": Images(x, digits.target.astype(np.int32), sizes)}, {}


def _read_folder(section: Folder) -> _Read:
    root = section.path
    if not root.is_dir():
        raise DataError("images", "the folder is missing.", {"task.data.path": root},
                        fix="task.data.path=PATH of an existing folder.")
    folders = {"train": root}
    if any(_subfolders(root / split) for split in OWN_SPLITS):
        folders = {OWN_SPLITS[path.name]: path for path in _subfolders(root) if path.name in OWN_SPLITS}
        if len(folders) < len(_subfolders(root)) or "train" not in folders:
            raise DataError("images", "a folder with splits must have train/, optionally val/ and test/, and no other.",
                            {"task.data.path": root, "folders": ", ".join(p.name for p in _subfolders(root))},
                            fix="rename or move the folders.")
    classes = [path.name for path in _subfolders(folders["train"])]
    parts, damaged, transparent = {}, {}, []
    for split, folder in folders.items():
        parts[split] = _of_classes(folder, classes, section, damaged, transparent)
    used = {file for folder in folders.values() for each in _subfolders(folder) for file in _images_in(each)}
    broken = {"damaged": f"{len(damaged)}, first {next(iter(damaged)).relative_to(root)}"} if damaged else {}
    facts = listed("left out", _left_out(root, used) | broken)
    if transparent:
        facts["transparent"] = (f"{len(transparent)} images, first {printable(transparent[0].relative_to(root))}; they "
                                "are read with the colours that the files have under the transparent parts")
    return classes, parts, facts


def _left_out(root: Path, used: set[Path]) -> dict[str, str]:
    """Kinds of files below ``root`` that are not in ``used`` -> how many, and the first of them."""
    reasons: dict[str, list[Path]] = {}
    for file in (file for file in _files_below(root) if file not in used):
        hidden = any(map(_is_hidden, file.relative_to(root).parts))
        reason = "hidden files" if hidden else "links to missing files" if not file.exists() else (
            "images outside the folders of classes" if _is_image(file) else
            f"files of another kind, {file.suffix}" if file.suffix else "files without an ending")
        reasons.setdefault(reason, []).append(file)
    return {reason: f"{len(files)}, first {files[0].relative_to(root)}" for reason, files in reasons.items()}


def _files_below(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders, also in linked ones, and links to files; sorted."""
    files, entered = [], set()
    for path, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(path)
        if real in entered:                                   # a link to a folder that contains it, or a second one
            folders.clear()
        else:
            entered.add(real)
            files += [Path(path, name) for name in names]
    return sorted(files)


def _images_in(folder: Path) -> list[Path]:
    """The images in a folder and its subfolders, without hidden ones, sorted."""
    return [file for file in _files_below(folder) if _is_image(file)
            and not any(map(_is_hidden, file.relative_to(folder).parts))]


def _subfolders(folder: Path) -> list[Path]:
    inside = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in inside if path.is_dir() and not _is_hidden(path.name))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in FOREIGN


def _of_classes(folder: Path, classes: list[str], section: Folder, damaged: dict[Path, str],
                transparent: list[Path]) -> Images:
    """The images of the classes in ``folder``.  Raises: DataError if it has other classes, or one has no image.

    Args:
      damaged: gets the files that are left out, with the reason.
      transparent: gets the files with transparent parts.
    """
    files = {path.name: _images_in(path) for path in _subfolders(folder)}
    empty = [name for name, paths in files.items() if not paths]
    ids = {composed(name): i for i, name in enumerate(classes)} | {name: i for i, name in enumerate(classes)}
    label_of = {name: ids.get(name, ids.get(composed(name))) for name in files}
    unknown = sorted(name for name in files if label_of[name] is None)
    if empty or unknown or not files:
        what = ("classes have no images." if empty else "a split has classes that train/ does not have." if unknown
                else "there are no folders of classes.")
        raise DataError("images", what, {"folder": folder, "classes": ", ".join(empty or unknown) or "-",
                                         "kinds": ", ".join(KINDS)}, fix="one folder of images for each class.")
    labels = {file: label_of[name] for name, paths in files.items() for file in paths}
    pictures, broken = _read_each([*labels], section.image, section.channels)
    readable = [file for file in labels if file not in broken]
    transparent += [file for file, picture in zip(readable, pictures, strict=True) if picture.transparent]
    if section.damaged == "refuse":
        _refuse_damaged(broken, len(labels), "whole image files, remove these, or task.data.damaged=leave_out.")
    damaged |= broken
    y = np.array([labels[file] for file in readable], np.int32)
    if bare := [name for name in files if label_of[name] not in y]:
        raise DataError("images", "classes have only images that cannot be read.",
                        {"folder": folder, "classes": ", ".join(bare)}, fix="whole image files.")
    return Images(np.stack([picture.pixels for picture in pictures]), y,
                  np.array([picture.size for picture in pictures], np.int32))


def _read_hub(section: Hub) -> _Read:
    hub = _open_hub(section)
    parts = {OWN_SPLITS[split]: rows for split, rows in hub.items() if split in OWN_SPLITS}
    left_out = {f"split {split}": f"{len(rows)} rows, neither train, val nor test" for split, rows in hub.items()
                if split not in OWN_SPLITS}
    columns = {split: rows.column_names for split, rows in parts.items()}
    if "train" not in parts:
        raise DataError("images", "the set has no split for training.",
                        {"task.data.path": section.path, "splits": ", ".join(hub)}, fix="a set with a split 'train'.")
    for key in ("image_key", "label_key"):
        if any(getattr(section, key) not in names for names in columns.values()):
            raise DataError("images", f"there is no column {getattr(section, key)!r}.",
                            {"task.data.path": section.path, "columns": ", ".join(columns["train"])},
                            fix=f"task.data.{key}=COLUMN.")
    kind = parts["train"].features[section.label_key]
    left_out |= {f"column {name}": "neither the image nor the label" for name in columns["train"]
                 if name not in (section.image_key, section.label_key)}
    words = hasattr(kind, "names")                            # a ClassLabel: ids into its names
    classes = list(kind.names) if words else sorted(
        {str(v) for v in parts["train"][section.label_key] if v is not None})
    images = {split: _of_rows(rows, classes, words, section) for split, rows in parts.items()}
    return classes, images, listed("left out", left_out)


def _open_hub(section: Hub) -> datasets.DatasetDict | dict[str, Any]:
    """Name of a split in the set -> its rows."""
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    path = Path(section.path)
    try:
        if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
            if section.subset is not None:
                raise ValueError("a folder of save_to_disk has no subsets, so task.data.subset has no effect")
            with plain_path(path) as plain:                   # datasets reads patterns and addresses in paths
                loaded = datasets.load_from_disk(str(plain))
            return loaded if isinstance(loaded, dict) else {"train": loaded}
        if not path.exists():
            return datasets.load_dataset(section.path, section.subset)
        with tempfile.TemporaryDirectory() as scratch, plain_path(path) as plain:     # not the cache of the user
            return datasets.load_dataset(str(plain), section.subset, cache_dir=scratch, keep_in_memory=True)
    except Exception as err:                                  # datasets wraps errors of its readers
        why = " ".join(str(err).split()) or type(err).__name__
        raise DataError("images", "the set cannot be loaded.", {"task.data.path": section.path, "why": why},
                        fix="the path of a local set, or a name in the cache; HF_HUB_OFFLINE=0 downloads.") from err


def _of_rows(rows: datasets.Dataset, classes: list[str], words: bool, section: Hub) -> Images:
    labels = rows[section.label_key]
    ids = np.array([v if words and v is not None else classes.index(str(v)) if str(v) in classes else -1
                    for v in labels], np.int32)
    if not len(ids) or ids.min() < 0:
        what = "labels are missing, or are not classes of the training split." if len(ids) else "a split has no rows."
        bad = f"{int((ids < 0).sum())} of {len(ids)}"
        raise DataError("images", what, {"task.data.path": section.path, section.label_key: bad},
                        fix="a set whose rows all have a label.")
    try:
        column = rows.cast_column(section.image_key, datasets.Image())[section.image_key]
        x = np.stack([pixels_of(picture, section.image, section.channels) for picture in column])
        sizes = np.array([picture.size for picture in column], np.int32)
    except Exception as err:                                  # decoders raise errors of many classes
        why = " ".join(str(err).split()) or type(err).__name__
        raise DataError("images", f"the column {section.image_key!r} cannot be read as images.",
                        {"task.data.path": section.path, "why": why},
                        fix="task.data.image_key=COLUMN of images.") from err
    return Images(x, ids, sizes)


_READERS: dict[str, Any] = {"digits": _read_digits, "folder": _read_folder, "hub": _read_hub}
