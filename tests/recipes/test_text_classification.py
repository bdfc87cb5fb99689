"""Classification of passages with BERT: learns, respects padding, starts from pretrained weights, reads files."""

import numpy as np
import pytest

import xnn
from recipes.data.vocabulary import Vocabulary, train_tokenizer
from recipes.errors import ConfigError, DataError
from recipes.lazy import tokenizers
from recipes.models.text import load_folder
from recipes.process.parallel import Placer
from recipes.settings.config_file import load_config
from recipes.task import Bound
from recipes.tasks.text_classification import encoded, load, make
from tests.recipes.conftest import train
from xjax import jit, random
from xnn.models import BERTConfig

BERT = "{features: 16, hidden: 24, layers: 1, heads: 2, dropout: 0.1}"
WORDS = (("red", "green", "blue", "grün"), ("one", "two", "three", "fünf"))


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """Csv of 150 notes of 1 to 6 words, which name colours or numbers."""
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("notes") / "notes.csv"
    rows = [(" ".join(rng.choice(WORDS[i % 2], rng.integers(1, 7))), ("colour", "number")[i % 2]) for i in range(150)]
    file.write_text("note,kind\n" + "".join(f"{note},{kind}\n" for note, kind in rows), "utf-8")
    return file


def config(notes, *overrides, model=BERT):
    return load_config("bert_stdlib.yaml", [
        f"task.file={notes}", "task.text=note", "task.label=kind", "task.tokenizer=null", f"task.model={model}",
        "task.length=24", "task.batch_size=12", "steps=3", "eval_every=100", "devices=1",
        "optim.schedule.warmup_steps=0", *overrides])


def test_it_learns(notes):
    result = train(config(notes, "steps=60", "optim.lr=0.005"))
    assert result.test["accuracy"] >= 0.9
    assert set(result.test) == {"loss", "accuracy", "f1"}


@pytest.mark.slow
def test_device_count_changes_nothing(notes):
    one, *others = (train(config(notes, f"devices={n}", "task.class_weights=balanced")) for n in (1, 2, 3))
    for many in others:
        np.testing.assert_allclose(many.losses, one.losses, rtol=1e-5)
        for name, value in one.test.items():
            assert many.test[name] == pytest.approx(value, rel=1e-5), name


def task_and_model(config):
    task = make(config.task, load(config.task).artifacts)
    return task, Bound(task.model, *task.init(random.PRNGKey(0)))


def test_padding_does_not_count(notes):
    """More padding, with any tokens, changes no output."""
    task, model = task_and_model(config(notes))
    rows = encoded(["red green", "one"], task.artifacts, 24).take(np.arange(2))
    probabilities = jit(lambda rows: task.outputs(model, rows))
    outputs = np.asarray(probabilities(rows))
    padding = np.arange(24) >= rows["lengths"][:, None]
    for x in (np.where(padding, 99, rows["x"]), rows["x"][:, :12]):
        np.testing.assert_allclose(probabilities(rows | {"x": x}), outputs, rtol=1e-5)
    np.testing.assert_allclose(outputs.sum(1), 1, rtol=1e-5)
    assert not np.allclose(outputs[0], outputs[1])


def test_each_passage_begins_with_a_token_of_its_own(notes):
    for tokenizer in ("null", "{size: 270}"):
        task, _ = task_and_model(config(notes, f"task.tokenizer={tokenizer}"))
        vocabulary = Vocabulary(task.artifacts["tokenizer"])
        x, lengths = encoded(["red red", "red " * 20], task.artifacts, 24).arrays.values()
        assert (x[:, 0] == vocabulary.size).all()
        assert vocabulary.decode(x[0, 1:lengths[0]]) == "red red"
        assert lengths[1] == 24
        assert "red red red".startswith(vocabulary.decode(x[1, 1:11])[:11])


def test_the_summary_has_the_file_its_encoding_and_the_columns(notes, tmp_path):
    file = tmp_path / "notes.csv"
    file.write_bytes(notes.read_text().replace("red", "röd").encode("cp1252"))
    summary = load(config(file).task).summary
    assert (summary["file"], summary["rows"]) == (str(file), "150")
    assert summary["encoding"].startswith("Windows-1252") and summary["columns"].startswith("texts: note\nclasses: ")


def test_files_to_predict(notes, tmp_path):
    task, _ = task_and_model(config(notes))
    (tmp_path / "a.txt").write_text("red\none two\n")
    rows, _ = task.read(tmp_path / "a.txt")
    assert len(rows) == 2
    assert rows.arrays["lengths"].tolist() == [4, 8]
    assert len(task.read(notes).rows) == 150
    (tmp_path / "c.txt").write_text("\nred\r\n \n\none two")
    assert task.read(tmp_path / "c.txt").names["row"].tolist() == [2, 5]     # some lines are blank
    (tmp_path / "b.csv").write_text("text\nred\n")
    with pytest.raises(DataError, match="(?s)there is no column 'note'.*fix: a file whose texts are"):
        task.read(tmp_path / "b.csv")
    columns = task.columns(np.array([[0.2, 0.8], [0.6, 0.4]]))
    assert columns["label"].tolist() == ["number", "colour"]
    assert columns["probability of colour"].tolist() == [0.2, 0.6]


def test_modules_of_the_standard_library():
    data = load(load_config("bert_stdlib.yaml", []).task)
    assert len(data.artifacts["classes"]) == 8
    assert all(len(rows) > 300 for rows in data.splits.values())
    assert "turtle" in data.summary["classes"]


@pytest.mark.parametrize(("overrides", "message"), [
    (["task.model=null"], "task.model is needed, or task.pretrained"),
    (["task.pretrained=folder"], "task.model is for a model from scratch"),
    (["task.passage=99"], "task.passage is for the standard library"),
    (["task.length=2"], "task.length must be at least 3"),
    (["task.model={heads: 5}"], "task.model.heads must divide the 768 features, got 5")])
def test_faults_of_the_config(notes, overrides, message):
    with pytest.raises(ConfigError) as caught:
        config(notes, *overrides)
    assert message in " ".join(str(caught.value).split())


@pytest.mark.parametrize("key", ["label=a", "split_seed=1"])
def test_keys_of_a_file(key):
    with pytest.raises(ConfigError) as caught:
        load_config("bert_stdlib.yaml", [f"task.{key}"])
    assert f"task.{key.partition('=')[0]} is for task.file" in " ".join(str(caught.value).split())


# ---- pretrained --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An untrained BERT, with a tokenizer that puts [CLS] and [SEP] around a text."""
    path = tmp_path_factory.mktemp("bert")
    made = BERTConfig(300, length=32, features=16, hidden=24, layers=1, heads=2)
    _, params = xnn.models.BERT(made).init(random.key(3), np.zeros((1, 4), np.int32))
    xnn.pretrained.save(path, made, params)
    tokenizer = tokenizers.Tokenizer.from_str(train_tokenizer(["red green blue"], 270))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    (path / "tokenizer.json").write_text(tokenizer.to_str())
    return path


@pytest.mark.parametrize("options", [
    {"padding": 1, "head": "masked_token"}, pytest.param({"head": "masked_token"}, marks=pytest.mark.slow),
    pytest.param({"types": 0, "pooler": "relu", "head": "none"}, marks=pytest.mark.slow)])
def test_an_encoder_without_a_pooled_vector_gets_a_new_one(folder, tmp_path, options):
    """Models for masked tokens, DistilBERT and RoBERTa; the vector is the same each time that the folder is read."""
    made = BERTConfig(300, length=32, features=16, hidden=24, layers=1, heads=2, **options)
    params = jit(lambda key: xnn.models.BERT(made).init(key, (1, 4))[1])(random.key(3))
    xnn.pretrained.save(tmp_path, made, params)
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    with pytest.warns(UserWarning, match="new parameters  pooler/"):
        first, again = (load_folder(tmp_path, ("bert",)) for _ in range(2))
    assert first.artifacts["pretrained"]["head"] == "pooler"
    assert first.artifacts["positions"] == (30 if "padding" in options else 32)
    np.testing.assert_array_equal(first.params["pooler"]["w"], again.params["pooler"]["w"])


@pytest.mark.slow
def test_fine_tuning_starts_from_the_weights_and_tokenizer(notes, folder):
    task, model = task_and_model(config(notes, f"task.pretrained={folder}", model="null"))
    rows = encoded(["red green", "blue " * 20], task.artifacts, 24).take(np.arange(2))
    ids = tokenizers.Tokenizer.from_str(task.artifacts["tokenizer"])
    assert rows["x"][:, 0].tolist() == [ids.token_to_id("[CLS]")] * 2
    assert rows["x"][1, -1] == rows["x"][0, rows["lengths"][0] - 1] == ids.token_to_id("[SEP]")
    bert, params, *_ = xnn.pretrained.load(folder)
    mask = np.arange(24) < rows["lengths"][:, None]
    pooled = np.asarray(bert.apply(params, rows["x"], mask=mask)[1])
    head = Placer.host(model.params["head"])
    logits = pooled @ head["w"] + head["b"]
    np.testing.assert_allclose(np.log(task.outputs(model, rows)), logits - np.log(np.exp(logits).sum(1))[:, None],
                               rtol=1e-4, atol=1e-5)
    assert np.isfinite(train(config(notes, f"task.pretrained={folder}", model="null")).losses).all()
    with pytest.raises(DataError, match="fix: task.length=32, or less."):
        task_and_model(config(notes, f"task.pretrained={folder}", "task.length=33", model="null"))
