"""The task images: learns, draws by row, reads digits, folders and Hugging Face data sets; errors for the rest."""

import datasets
import numpy as np
import pytest
from PIL import Image

import xjax
import xnn
from recipes.data.images import load_images, pixels_of, read_files, split_apart
from recipes.errors import ConfigError, DataError
from recipes.settings.config_file import load_config
from recipes.tasks.images import augmented, load, make
from tests.recipes.after import after
from tests.recipes.conftest import train
from tests.refusals import assert_refused
from xjax import random

SMALL = ("optim.schedule=constant", "devices=1")
MLP = "task.model={name: mlp, hidden: [32]}"
RESNET = "task.model={name: resnet, stages: [[1, 8]], small_images: true}"
VIT = "task.model={name: vit, patch: 4, features: 16, hidden: 32, layers: 1, heads: 2, dropout: 0.1}"


def config(*overrides, name="resnet_digits.yaml"):
    return load_config(name, [*SMALL, *overrides])


def data(text):
    """The set that a section ``task.data`` describes."""
    return load_images(config(MLP, "task.shift=0", f"task.data={text}").task.data)


@pytest.fixture(scope="module")
def learned():
    """A small network on the digits: (its config, its training)."""
    small = config(MLP, "task.shift=0", "steps=150", "eval_every=1000")
    return small, train(small)


# ---- training ------------------------------------------------------------------------------------------------------


def test_it_learns_the_digits(learned):
    _, trained = learned
    assert trained.test["accuracy"] > 0.9
    assert trained.losses[-1] < 0.3 < 2 < trained.losses[0]


@pytest.mark.parametrize("model", [RESNET, pytest.param(VIT, marks=pytest.mark.slow)], ids=["resnet", "vit"])
def test_device_count_changes_nothing(model):
    """For the network with batch statistics and the one with dropout; both draw shifts and mirrorings."""
    runs = [train(config(model, "task.flip=true", "steps=4", "task.batch_size=48", "optim.lr=1e-3",
                         f"devices={devices}")) for devices in (1, 3)]
    for run in runs[1:]:
        np.testing.assert_allclose(run.losses, runs[0].losses, rtol=0, atol=2e-4)
        assert run.test["loss"] == pytest.approx(runs[0].test["loss"], abs=1e-3)


@pytest.mark.parametrize(("model", "image"), [
    ("{name: mlp}", 1), ("{name: lenet}", 12), ("{name: lenet, activation: relu, pool: max}", 28),
    ("{name: resnet}", 1),
    ("{name: resnet, bottleneck: true, stages: [[1, 8], [2, 16]]}", 5), ("{name: convnext, drop_path: 0.1}", 32),
    ("{name: convnext, patch: 1, stages: [[1, 8], [1, 8], [1, 8]]}", 4), ("{name: vit, patch: 3, layers: 1}", 9)])
def test_every_network_takes_the_least_images_that_the_config_allows(model, image):
    small = config(f"task.model={model}", "task.shift=0", f"task.data.image={image}")
    task = make(small.task, {"classes": ["a", "b"], "class_weights": [1, 1], "image": image, "channels": 3})
    x = np.zeros((2, image, image, 3), np.float32)

    def run(key):
        params, state = task.init(key)
        return task.model.apply_with_state(params, state, x)[0]

    assert xjax.eval_shape(run, random.key(0)).shape == (2, 2)


def test_each_option_of_augmentation_has_its_effect():
    runs = [train(config(MLP, "steps=2", "eval_every=9", *more)).losses for more in
            (("task.shift=0",), ("task.shift=1",), ("task.shift=0", "task.flip=true"), ("task.shift=0",))]
    np.testing.assert_array_equal(runs[0], runs[3])
    assert len({float(losses[0]) for losses in runs}) == 3


def test_augmented_images_are_moved_and_mirrored_by_the_number_of_their_row():
    images = np.random.default_rng(0).integers(1, 255, (60, 4, 6, 3)).astype(np.uint8)
    key = random.key(3)
    whole = np.asarray(augmented(images, xnn.RowKey(key, 0), 1, True))
    part = np.asarray(augmented(images[20:50], xnn.RowKey(key, 20), 1, True))
    np.testing.assert_array_equal(part, whole[20:50])
    seen = set()
    for image, new in zip(images, whole, strict=True):
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
        moved = {(r, c, m): padded[r:r + 4, c:c + 6][:, ::m] for r in range(3) for c in range(3) for m in (1, -1)}
        matching = [move for move, candidate in moved.items() if np.array_equal(candidate, new)]
        assert len(matching) == 1
        seen.add(matching[0])
    assert len(seen) > 12                                          # 18 ways exist; there are 60 draws
    other = np.asarray(augmented(images, xnn.RowKey(random.key(4), 0), 1, True))
    assert not np.array_equal(other, whole)


def test_class_weights_and_metrics_of_classes():
    test = train(config(MLP, "steps=2", "task.metrics=[f1, recall]", "task.class_weights=balanced")).test
    assert set(test) == {"loss", "accuracy", "f1", "recall"}


# ---- after training ------------------------------------------------------------------------------------------------


def test_the_report_has_the_confusion_and_the_mistakes(learned, tmp_path):
    small, trained = learned
    figures = trained.task.draw(after(small, trained))
    assert list(figures) == ["Classes, test", "Confusion, test", "Calibration, test", "Most certain mistakes, test"]
    shares = figures["Confusion, test"].axes[0].images[0].get_array()
    np.testing.assert_allclose(shares.sum(1), 1)                    # of each class
    mistakes = figures["Most certain mistakes, test"]
    captions = [axis.get_title() for axis in mistakes.axes if axis.get_title()]
    certainty = [float(text.split()[-2]) for text in captions]
    assert certainty == sorted(certainty, reverse=True)
    assert all(text[3] != text[5] for text in captions)             # "is 3\n8: 99 %"
    recall = figures["Classes, test"].rows[3][2]
    assert np.isclose(recall, shares[3, 3]) and figures["Classes, test"].headings[2] == "recall"
    for title, figure in figures.items():
        if title != "Classes, test":
            figure.savefig(tmp_path / f"{title}.png", dpi=40)


def test_files_of_digits_are_read_as_the_digits_and_labelled(learned, tmp_path):
    small, trained = learned
    test = load(small.task).splits["test"]
    for i in range(70):
        Image.fromarray(test.arrays["x"][i, ..., 0]).save(tmp_path / f"{i:02}.png")
    rows, names = trained.task.read(tmp_path)
    assert names["file"].tolist() == [f"{i:02}.png" for i in range(70)]
    np.testing.assert_array_equal(rows.arrays["x"], test.arrays["x"][:70])
    model = after(small, trained)
    columns = trained.task.columns(model.outputs_of(rows))
    assert list(columns) == ["label", *(f"probability of {i}" for i in range(10))]
    probabilities = np.stack([columns[f"probability of {i}"] for i in range(10)], axis=1)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(probabilities, model.outputs("test")["probabilities"][:70], atol=1e-6)
    assert np.mean(columns["label"] == test.arrays["y"][:70].astype(str)) > 0.85
    one, names = trained.task.read(tmp_path / "03.png")
    assert (names["file"].tolist(), len(one)) == (["03.png"], 1)


@pytest.mark.parametrize(("name", "text"), [("a.txt", "hello"), ("b.png", "no image"), (None, None)])
def test_what_is_no_image_is_refused_by_name(tmp_path, name, text):
    if name:
        (tmp_path / name).write_text(text)
    given = tmp_path / name if name == "a.txt" else tmp_path
    assert_refused(lambda: read_files(given, 8, 1), DataError, [str(tmp_path / (name or "")), "  fix: "])


# ---- pixels and splits -----------------------------------------------------------------------------------------------


def test_digits_are_split_by_class_and_standardized_by_the_training_images():
    loaded = load(config(MLP).task)
    sizes = {split: len(rows) for split, rows in loaded.splits.items()}
    assert sizes == {"train": 1295, "test": 359, "val": 143}
    counts = {split: np.bincount(rows.arrays["y"]) for split, rows in loaded.splits.items()}
    np.testing.assert_allclose(counts["test"] / sum(counts.values()), 0.2, atol=0.003)
    x = loaded.splits["train"].arrays["x"] / 255
    np.testing.assert_allclose([loaded.artifacts["mean"], loaded.artifacts["deviation"]], [[x.mean()], [x.std()]])
    every = np.concatenate([rows.arrays["x"] for rows in loaded.splits.values()]).reshape(1797, -1)
    assert len(np.unique(every, axis=0)) == 1797                   # no two of the digits are equal, so each occurs once
    other = load(config(MLP, "task.data.split_seed=1").task).splits["test"].arrays["x"]
    assert not np.array_equal(other, loaded.splits["test"].arrays["x"])


def test_shares_of_zero_leave_no_split():
    assert list(data("{name: digits, val_fraction: 0, test_fraction: 0}").splits) == ["train"]
    tiny = data("{name: digits, test_fraction: 0.99}").splits["train"]
    assert len(np.unique(tiny.y)) == 10


def test_pixels_of_pictures_of_every_kind():
    ramp = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    np.testing.assert_array_equal(pixels_of(Image.fromarray(ramp), 4, 1)[..., 0], ramp // 257)
    red = Image.new("RGB", (10, 6), (200, 0, 0))
    np.testing.assert_array_equal(pixels_of(red, 3, 3), np.broadcast_to([200, 0, 0], (3, 3, 3)))
    for mode in ("1", "L", "LA", "P", "RGBA", "CMYK"):
        assert pixels_of(red.convert(mode), 5, 1).shape == (5, 5, 1)


# ---- folders -------------------------------------------------------------------------------------------------------


def paint(folder, classes=("blue", "red"), n=10, kind="png", seed=0):
    """Noisy images of 9 x 7 pixels in one folder for each class, which is named after their colour."""
    rng = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(n):
            pixels = rng.integers(0, 80, (7, 9, 3))
            pixels[..., ("red", "green", "blue").index(name)] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.{kind}")
    return folder


def test_a_folder_with_one_folder_for_each_class(tmp_path):
    paint(tmp_path, kind="jpg")
    (tmp_path / "red" / "notes.txt").write_text("x")
    loaded = data(f"{{name: folder, path: {tmp_path}, image: 8, val_fraction: 0.25}}")
    assert loaded.classes == ["blue", "red"]
    assert {split: part.x.shape for split, part in loaded.splits.items()} == {
        "train": (12, 8, 8, 3), "test": (4, 8, 8, 3), "val": (4, 8, 8, 3)}
    for part in loaded.splits.values():
        np.testing.assert_array_equal(part.x.mean((1, 2))[:, 0] > 130, part.y == 1)
        assert set(part.y) == {0, 1}
    assert loaded.summary["left out"] == "files of another kind, .txt: 1, first red/notes.txt"
    grey = data(f"{{name: folder, path: {tmp_path}, image: 8, channels: 1}}")
    assert grey.splits["train"].x.shape[1:] == (8, 8, 1)


FORMATS = {".png": "RGB", ".jpg": "RGB", ".jpeg": "L", ".webp": "RGB", ".bmp": "RGB", ".gif": "P", ".tif": "RGB",
           ".tiff": "F", ".PNG": "RGBA", ".Webp": "RGBA", ".tIf": "I;16"}


@pytest.mark.parametrize(("ending", "mode"), FORMATS.items())
def test_formats_of_images_in_nested_folders(tmp_path, ending, mode):
    value = {"F": 0.8, "I;16": 205 * 257}.get(mode, 205)
    for name, level in (("dark", 0), ("light", value)):
        for i, inside in enumerate(("", "2021", "2021/may")):
            folder = tmp_path / name / inside
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.new(mode if mode in ("F", "I;16") else "RGB", (9, 8), level if mode in ("F", "I;16") else
                                (level,) * 3)
            picture.convert(mode).save(folder / f"{i}{ending}")
    result = data(f"{{name: folder, path: {tmp_path}, image: 8, test_fraction: 0, val_fraction: 0}}")
    assert len(result.splits["train"].y) == 6 and "left out" not in result.summary
    levels = result.splits["train"].x.mean((1, 2, 3))
    np.testing.assert_allclose(levels, np.where(result.splits["train"].y == 1, 204.5, 0), atol=3)
    assert read_files(tmp_path, 8, 3).names[:2] == [f"dark/0{ending}", f"dark/2021/1{ending}"]


def test_each_kind_of_file_that_is_left_out_is_counted(tmp_path):
    paint(tmp_path)
    for name in ("red/a.txt", "red/b.txt", "blue/.DS_Store", "blue/deep/c.csv", "blue/README", "red/.cache/x.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    Image.new("RGB", (8, 8)).save(tmp_path / "loose.png")
    lines = data(f"{{name: folder, path: {tmp_path}}}").summary["left out"].splitlines()
    assert sorted(line.partition(", first")[0] for line in lines) == [
        "files of another kind, .csv: 1", "files of another kind, .txt: 2", "files without an ending: 1",
        "hidden files: 2", "images outside the folders of classes: 1"]
    assert len(read_files(tmp_path, 8, 3).notes) == 4          # of a folder to predict, each image is one of its inputs


def test_links_are_followed(tmp_path):
    """To folders of classes, to folders in them, to files; a link to a folder around it ends, a broken one is said."""
    paint(tmp_path / "store")
    for name in ("blue", "red"):
        (tmp_path / "set" / name).mkdir(parents=True)
        (tmp_path / "set" / name / "2024").symlink_to(tmp_path / "store" / name)
        (tmp_path / "set" / name / "again").symlink_to(tmp_path / "set" / name)
        (tmp_path / "linked").mkdir(exist_ok=True)
        (tmp_path / "linked" / name).symlink_to(tmp_path / "store" / name)
    (tmp_path / "set" / "red" / "x.png").symlink_to(tmp_path / "store" / "blue" / "0.png")
    (tmp_path / "set" / "red" / "gone.png").symlink_to(tmp_path / "gone.png")
    by_folders, by_links = (data(f"{{name: folder, path: {tmp_path / name}, image: 8, val_fraction: 0}}")
                            for name in ("linked", "set"))
    assert len(by_folders.splits["train"].y) == 16 and "left out" not in by_folders.summary
    assert sum(len(part.y) for part in by_links.splits.values()) == 21
    assert by_links.summary["left out"] == "links to missing files: 1, first red/gone.png"


@pytest.mark.parametrize(("mode", "alpha", "said"), [("RGBA", 0, True), ("RGBA", 254, True), ("RGBA", 255, False),
                                                     ("LA", 7, True), ("RGB", 255, False), ("P", 255, False)])
def test_transparent_images_are_said(tmp_path, mode, alpha, said):
    paint(tmp_path)
    picture = Image.new("RGBA", (9, 7), (200, 10, 10, 255))
    picture.putpixel((2, 2), (0, 0, 0, alpha))
    picture.convert(mode).save(tmp_path / "red" / "0.png")
    summary = data(f"{{name: folder, path: {tmp_path}}}").summary
    assert summary.get("transparent", "").startswith("1 images, first red/0.png; they are read with the") == said


def test_images_that_training_has_seen_are_said(tmp_path):
    paint(tmp_path / "train")
    paint(tmp_path / "test", n=3)                             # from the same seed
    summary = data(f"{{name: folder, path: {tmp_path}, val_fraction: 0}}").summary
    assert summary["repeated"] == "test: 3 of 6 have the inputs of an example of train"


def test_a_class_in_the_other_coding_of_its_letters(tmp_path):
    """As a folder that was copied to a Mac and back has it."""
    for split, name in (("train", "gr\xfcn"), ("test", "gru\u0308n")):
        paint(tmp_path / split)
        (tmp_path / split / "blue").rename(tmp_path / split / name)
    loaded = data(f"{{name: folder, path: {tmp_path}}}")
    assert loaded.classes == ["gr\xfcn", "red"] and np.bincount(loaded.splits["test"].y).tolist() == [10, 10]


def test_folders_of_other_programs_are_no_classes(tmp_path):
    paint(tmp_path)
    for name in ("__MACOSX/red/._0.png", "@eaDir/x.png", ".ipynb_checkpoints/y.png", "red/@eaDir/0.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x")
    loaded = data(f"{{name: folder, path: {tmp_path}}}")
    assert loaded.classes == ["blue", "red"] and "hidden files: 4" in loaded.summary["left out"]


def test_damaged_images(tmp_path):
    """All are named in one error, or left out if the config says so."""
    paint(tmp_path)
    whole = (tmp_path / "red" / "0.png").read_bytes()
    (tmp_path / "red" / "0.png").write_bytes(whole[:40])
    for i in range(12):
        (tmp_path / "blue" / f"empty{i:02}.png").write_bytes(b"")
    folder = f"name: folder, path: {tmp_path}"
    with pytest.raises(DataError, match=r"13 of \d+ images cannot be read(.|\n)*empty00(.|\n)*3 more(.|\n)*leave_out"):
        data(f"{{{folder}}}")
    loaded = data(f"{{{folder}, damaged: leave_out}}")
    assert "damaged: 13, first blue/empty00.png" in loaded.summary["left out"]
    with pytest.raises(DataError, match=r"13 of \d+ images cannot be read"):
        read_files(tmp_path, 8, 3)
    for file in (tmp_path / "red").glob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(DataError, match="classes have only images that cannot be read(.|\n)*red"):
        data(f"{{{folder}, damaged: leave_out}}")


def test_a_folder_with_splits_of_its_own(tmp_path):
    for i, split in enumerate(("train", "validation", "test")):
        paint(tmp_path / split, n=4 - i, seed=i)
    loaded = data(f"{{name: folder, path: {tmp_path}}}")
    assert {split: len(part.y) for split, part in loaded.splits.items()} == {"train": 8, "val": 6, "test": 4}
    test = train(config(MLP, "task.shift=0", f"task.data={{name: folder, path: {tmp_path}}}", "steps=20",
                        "task.batch_size=8")).test
    assert test["accuracy"] == 1


@pytest.mark.parametrize(("key", "value"), [("test_fraction", 0.2), ("val_fraction", 0), ("split_seed", 1)])
def test_shares_have_no_effect_on_a_set_with_splits(tmp_path, key, value):
    for split in ("train", "val", "test"):
        paint(tmp_path / split, n=1)
    with pytest.raises(DataError, match=f"its own splits(.|\n)*task.data.{key}"):
        data(f"{{name: folder, path: {tmp_path}, {key}: {value}}}")


def test_wrong_folders(tmp_path):
    def error(folder):
        with pytest.raises(DataError) as caught:
            load(config(MLP, "task.shift=0", f"task.data={{name: folder, path: {folder}}}").task)
        assert "  fix: " in str(caught.value)
        return str(caught.value)

    assert "the folder is missing" in error(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "there are no folders of classes" in error(tmp_path / "empty")
    (paint(tmp_path / "a") / "green").mkdir()
    assert "classes have no images" in error(tmp_path / "a") and "green" in error(tmp_path / "a")
    assert "the set has one class" in error(paint(tmp_path / "b", ["red"]))
    assert "fix: a folder for each class, two or more" in error(tmp_path / "b")
    (paint(tmp_path / "c") / "red" / "3.png").write_bytes(b"\x89PNG broken")
    assert "cannot be read" in error(tmp_path / "c") and "3.png" in error(tmp_path / "c")
    paint(tmp_path / "d" / "train")
    paint(tmp_path / "d" / "test", ["red", "green"])
    assert "that train/ does not have" in error(tmp_path / "d") and "green" in error(tmp_path / "d")
    paint(tmp_path / "e" / "test")
    assert "must have train/" in error(tmp_path / "e")
    paint(tmp_path / "f" / "train")
    paint(tmp_path / "f", ["red"])
    assert "and no other" in error(tmp_path / "f")


# ---- sets of Hugging Face --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def painted(tmp_path_factory):
    """A set of 20 images with named classes; 8 of them are its test split."""
    folder = paint(tmp_path_factory.mktemp("painted") / "files")
    files = sorted(folder.glob("*/*.png"))
    labels = [file.parent.name for file in files]
    features = datasets.Features({"picture": datasets.Image(), "colour": datasets.ClassLabel(names=["red", "blue"])})
    whole = datasets.Dataset.from_dict({"picture": list(map(str, files)), "colour": labels}, features)
    return whole.train_test_split(0.4, seed=0)


HUB = "{{name: hub, path: {}, image: 6, image_key: picture, label_key: colour}}"


def test_a_saved_set_and_its_parquet_files_are_the_same(painted, tmp_path):
    painted.save_to_disk(tmp_path / "saved")
    (tmp_path / "files").mkdir()
    for split, rows in painted.items():
        rows.to_parquet(tmp_path / "files" / f"{split}.parquet")
    saved, files = (data(HUB.format(tmp_path / name)) for name in ("saved", "files"))
    assert saved.classes == files.classes == ["red", "blue"]
    assert {split: len(part.y) for split, part in saved.splits.items()} == {"train": 10, "val": 2, "test": 8}
    for split, part in saved.splits.items():
        np.testing.assert_array_equal(part.x, files.splits[split].x)
        np.testing.assert_array_equal(part.x.mean((1, 2))[:, 0] > 130, part.y == 0)


def test_labels_may_be_words(painted, tmp_path):
    words = painted["train"].cast_column("colour", datasets.Value("string"))
    names = [painted["train"].features["colour"].names[i] for i in painted["train"]["colour"]]
    words = words.remove_columns("colour").add_column("colour", names)
    words.save_to_disk(tmp_path / "words")
    assert data(HUB.format(tmp_path / "words")).classes == ["blue", "red"]


def test_a_set_that_is_not_here_fails_at_once(command):
    """In a process of its own: the library reads at its import whether it may use the network."""
    script = ("import time\nfrom recipes.data.images import Hub, load_images\nstart = time.perf_counter()\n"
              "try: load_images(Hub(path='no/such'))\n"
              "except Exception as err: print(err, time.perf_counter() - start, sep='\\n')")
    code, out, err = command(module=("-c", script))
    assert code == 0, err
    *message, seconds = out.splitlines()
    assert message[0] == "images: the set cannot be loaded." and message[1].split() == ["task.data.path", "no/such"]
    assert message[-1].startswith("  fix: ") and float(seconds) < 15  # 2 s; more if many tests run together


def test_wrong_sets(painted, tmp_path):
    def error(text):
        with pytest.raises(DataError) as caught:
            data(text)
        assert "  fix: " in str(caught.value)
        return str(caught.value)

    painted.save_to_disk(tmp_path / "saved")
    right = HUB.format(tmp_path / "saved")
    assert "there is no column 'image'" in error(f"{{name: hub, path: {tmp_path / 'saved'}}}")
    assert "there is no column 'label'" in error(right.replace("label_key: colour", "label_key: label"))
    assert "cannot be read as images" in error(right.replace("picture", "colour"))
    assert "task.data.subset has no effect" in error(right.replace("image: 6", "subset: a"))
    datasets.DatasetDict(test=painted["test"]).save_to_disk(tmp_path / "test")
    assert "no split for training" in error(HUB.format(tmp_path / "test"))
    unlabelled = painted["train"].map(lambda row: {"colour": -1})
    unlabelled.save_to_disk(tmp_path / "unlabelled")
    assert "labels are missing" in error(HUB.format(tmp_path / "unlabelled"))


# ---- configs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task.shift=8", "task.shift  must be less than task.data.image, which is 8, got 8"),
        ("task.model={name: lenet}", "task.data.image  must be at least 12 for lenet, got 8"),
        ("task.model={name: convnext}", "task.data.image  must be at least 32 for the patches of 4 pixels"),
        ("task.model={name: vit}", "task.model.patch  must divide task.data.image, which is 8, got 16"),
        ("task.model={name: vit, patch: 4, heads: 5}", "task.model.heads  must divide task.model.features"),
        ("task.model={name: vit, patch: 4, dropout: 1}", "task.model.dropout  must be at least 0 and less than 1"),
        ("task.model={name: mlp, activation: rleu}", "task.model.activation  must be one of relu, gelu"),
        ("task.model={name: mlp, hidden: [8, 0]}", "task.model.hidden  must be greater than 0, got 0"),
        ("task.model={name: resnet, stages: []}", "task.model.stages  needs at least one stage"),
        ("task.model={name: resmet}", "there is no model 'resmet'; did you mean 'resnet'?"),
        ("task.data={name: folder}", "task.data.path  a value is needed here"),
        ("task.data={name: digit}", "there is no data 'digit'; did you mean 'digits'?"),
        ("task.data.channels=3", "task.data.channels  unknown key: it is a key of folder, hub only"),
        ("task.data.val_fraction=1", "task.data.val_fraction  must be less than 1, got 1"),
    ])
def test_one_wrong_override(override, message):
    assert_refused(lambda: config(override), ConfigError, message)


def test_own_splits_are_kept():
    splits = data("{name: digits}").splits
    section = config(MLP).task.data
    assert split_apart(splits, section) == splits
