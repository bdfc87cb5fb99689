"""The language model: learns, counts bits per byte with any tokens, starts from pretrained weights, generates."""

import math
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import xnn
from recipes import evaluate, export, generate, report
from recipes import train as train_command
from recipes.data.vocabulary import train_tokenizer
from recipes.errors import ConfigError, DataError
from recipes.process.parallel import Placer, choose_devices
from recipes.settings.config_file import load_config
from recipes.tasks.language_model import load, make
from recipes.training.run import run
from recipes.training.step import make_eval_step, totals_over
from tests.recipes.conftest import train
from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax import eval_shape, jit, random, tree_util
from xnn.models import GPT2Config, LlamaConfig

TEXT = "".join(f"{i} and {i + 1} are {2 * i + 1}, größer als {i}.\n" for i in range(200))
GPT2 = "{name: gpt2, features: 16, layers: 1, heads: 2, dropout: 0.1}"
MODELS = [GPT2, "{name: llama, features: 16, hidden: 24, layers: 1, heads: 2, kv_heads: 1}",
          "{name: lstm, features: 16, layers: 1, dropout: 0.1}"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(TEXT, "utf-8")
    (folder / "b.txt").write_text(TEXT[:1000], "utf-8")
    return folder


def config(corpus, *overrides, model=GPT2):
    return load_config("gpt2_stdlib.yaml", [
        f"task.files=[{corpus}]", "task.tokenizer=null", f"task.model={model}", "task.length=16", "task.stride=null",
        "task.batch_size=16", "steps=4", "devices=1",
        "optim.lr=0.01", "optim.schedule=constant", "eval_every=4", *overrides])


@pytest.fixture(scope="module", params=one_in(len(MODELS), MODELS))
def result(request, corpus):
    """The result of a training in which the model nearly memorizes the numbers of the corpus."""
    return train(config(corpus, "steps=80", "eval_every=80", model=request.param))


@pytest.fixture
def trained(result):
    """(Task, parameters) of the training."""
    return result.task, Placer.host(result.progress.state.params)


def test_it_learns(result):
    assert result.losses[-5:].mean() < 0.75 * result.losses[0] < 0.75 * 1.05 * math.log(256)
    assert set(result.test) == {"loss", "accuracy", "bits_per_byte"}
    assert result.test["bits_per_byte"] == pytest.approx(result.test["loss"] / math.log(2))      # bytes are tokens


@pytest.mark.parametrize(("model", "devices"), [
    pytest.param(MODELS[0], 2, marks=pytest.mark.slow), (MODELS[2], 3)])
def test_device_count_changes_nothing(corpus, model, devices):
    """6 windows are even over 2 and 3 devices; the last batch of the test split is short, its last window padded."""
    one, many = (train(config(corpus, f"devices={n}", "steps=3", "task.batch_size=6", model=model))
                 for n in (1, devices))
    np.testing.assert_allclose(many.losses, one.losses, rtol=1e-5)
    for name, value in one.test.items():
        assert many.test[name] == pytest.approx(value, rel=1e-5), name


def totals(task, data, split="test", devices=1):
    placer = Placer(choose_devices(devices))
    params, state = task.init(random.PRNGKey(0))
    model = placer.replicate((params, state))
    return totals_over(make_eval_step(task, placer), model, task.batches(data.splits[split], placer, 0).all())


def test_bits_per_byte_compare_between_vocabularies(corpus):
    """An untrained model has log2(size) bits per token; the bytes of all tokens are those of the split."""
    sizes = {}
    for tokenizer in ("null", "{size: 290}"):
        made = config(corpus, f"task.tokenizer={tokenizer}", "task.val_fraction=0.1", "task.test_fraction=0.1").task
        data = load(made)
        sums = totals(make(made, data.artifacts), data)
        nats, tokens = sums["loss"]
        bits, n_bytes = sums["bits_per_byte"]
        size = 256 if tokenizer == "null" else 290
        assert nats / tokens == pytest.approx(math.log(size), rel=0.01)
        assert bits == pytest.approx(nats / math.log(2))
        sizes[size] = n_bytes
    wanted = sum(len(text[len(text) - round(0.1 * len(text)):].encode()) for text in (TEXT, TEXT[:1000]))
    assert sizes[256] == wanted - 1                       # nothing predicts the first byte
    assert wanted - 8 < sizes[290] < wanted


def test_nothing_of_a_split_is_in_another(corpus):
    data = load(config(corpus, "task.val_fraction=0.1", "task.test_fraction=0.2").task)
    streams = {split: bytes(windows._tokens.tolist()).decode("utf-8") for split, windows in data.splits.items()}
    for text in (TEXT, TEXT[:1000]):
        n = len(text)
        assert text[:round(0.7 * n)] in streams["train"]
        assert text[n - round(0.2 * n):] in streams["test"]
    assert sum(map(len, streams.values())) == len(TEXT) + 1000
    assert "SHA-256" in data.summary["text"]


def test_stride_is_where_training_windows_start(corpus):
    counts = [len(load(config(corpus, f"task.stride={stride}").task).splits["train"]) for stride in ("null", 1, 4)]
    assert counts[0] == pytest.approx(counts[1] / 16, abs=1) == pytest.approx(counts[2] / 4, abs=1)
    one, other = (train(config(corpus, f"task.stride={stride}")).losses for stride in (16, 1))
    assert not np.allclose(one, other)


def test_without_test_text_there_is_no_score(corpus):
    assert train(config(corpus, "task.test_fraction=0", "task.val_fraction=0")).test == {}


@pytest.mark.parametrize(("overrides", "message"), [
    (["task.model=null"], "task.model  is needed, or task.pretrained"),
    (["task.pretrained=folder"], "task.model  is for a model from scratch"),
    (["task.files=[]"], "task.files  is empty"),
    (["task.files=null", "task.pattern=a.*"], "task.pattern  is for folders in task.files"),
    (["task.tokenizer={size: 255}"], "task.tokenizer.size"),
    (["task.val_fraction=0.5", "task.test_fraction=0.5"], "task.test_fraction  leaves nothing to train on"),
    (["task.model={name: gpt2, features: 16, heads: 3}"], "task.model.heads  must divide the 16 features, got 3"),
    (["task.model={name: gpt2, layers: 0}"], "task.model.layers  must be greater than 0, got 0"),
    (["task.model={name: lstm, dropout: 1.0}"], "task.model.dropout  must be at least 0 and less than 1, got 1.0"),
    (["task.model={name: llama, heads: 4, kv_heads: 3}"], "task.model.kv_heads  must divide the 4 heads, got 3"),
    (["task.model={name: llama, features: 12, heads: 4, kv_heads: 2}"], "the size of a head must be even, got 3"),
    (["task.model={name: gpt3}"], "task.model")])
def test_faults_of_the_config(corpus, overrides, message):
    with pytest.raises(ConfigError) as caught:
        config(corpus, *overrides)
    assert " ".join(message.split()) in " ".join(str(caught.value).split())


def test_too_little_text(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="too few tokens"):
        load(config(tmp_path).task)


# ---- pretrained --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    made = {"gpt2": GPT2Config(300, 24, 16, 1, 2, 0.0),
            "llama": LlamaConfig(300, 16, 24, 1, 2, 1, scaling=None)}[request.param]
    model = getattr(xnn.models, {"gpt2": "GPT2", "llama": "Llama"}[request.param])(made)
    _, params = model.init(random.key(3), np.zeros((1, 4), np.int32))
    xnn.pretrained.save(path, made, params)
    (path / "tokenizer.json").write_text(train_tokenizer([TEXT], 290))
    return path


def test_fine_tuning_starts_from_the_weights_and_tokenizer(corpus, folder):
    made = config(corpus, f"task.pretrained={folder}", model="null").task
    data = load(made)
    task = make(made, data.artifacts)
    model, params, *_ = xnn.pretrained.load(folder)
    batch = data.splits["test"].take(np.arange(len(data.splits["test"])))
    entropy = jit(lambda params: xnn.losses.cross_entropy(model.apply(params, batch["x"]), batch["y"],
                                                          weights=batch["counts"]))(params)
    nats, tokens = totals(task, data)["loss"]
    assert nats / tokens == pytest.approx(float(entropy), rel=1e-5)
    assert batch["x"].max() < 290
    assert task.generate(task.init(random.PRNGKey(0))[0], "1 and ", 12, seed=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_in_half_precision(corpus, folder, tmp_path, dtype):
    """They are read inside of programs too: `open_run` finds the shapes of a model by tracing `init`."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    model, params, _, made = xnn.pretrained.load(folder)
    xnn.pretrained.save(tmp_path, made, tree_util.tree_map(np.asarray, xnn.params.cast(params, dtype)))
    section = config(corpus, f"task.pretrained={tmp_path}", model="null").task
    task = make(section, load(section).artifacts)
    shapes = eval_shape(lambda: task.init(random.PRNGKey(0))[0])
    assert {str(leaf.dtype) for leaf in tree_util.tree_leaves(shapes)} == {"float32"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_run_with_weights_in_half_precision(corpus, folder, tmp_path, monkeypatch, dtype):
    """Every command opens a run that fine-tuned them."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "model")
    model, params, _, made = xnn.pretrained.load(folder)
    xnn.pretrained.save(Path("model"), made, tree_util.tree_map(np.asarray, xnn.params.cast(params, dtype)))
    Path("a.txt").write_text(TEXT)
    assert train_command.main(["--config", "gpt2_stdlib.yaml", "task.files=[a.txt]", "task.pretrained=model", "steps=2",
                                "task.model=null", "task.tokenizer=null", "task.length=8", "task.batch_size=4",
                                "optim.schedule=constant", "run_dir=r"]) == 0
    for command, args in ((evaluate, ["r"]), (train_command, ["--resume", "r", "--extend", "4"]),
                          (generate, ["r", "--prompt", "1 and", "--tokens", "2"]), (report, ["r"]),
                          (export, ["r", "x"]), (generate, ["x", "--prompt", "1", "--tokens", "2"])):
        assert command.main(args) == 0, command


def test_fine_tuning_learns(corpus, folder):
    result = train(config(corpus, f"task.pretrained={folder}", "steps=12", model="null"))
    assert result.losses[-1] < result.losses[0]


def test_folders_that_do_not_fit(corpus, folder, tmp_path):
    def refused(text, path, *overrides):
        def fine_tune():
            made = config(corpus, f"task.pretrained={path}", *overrides, model="null").task
            make(made, load(made).artifacts)
        assert_refused(fine_tune, DataError, text)

    refused("the folder cannot be read", tmp_path / "none")
    for file in folder.iterdir():
        if file.name != "tokenizer.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    refused("the folder has no tokenizer.json", tmp_path)
    (tmp_path / "tokenizer.json").write_text(train_tokenizer([TEXT], 330))
    refused("the tokenizer does not belong to the model", tmp_path)
    if "gpt2" in folder.name:
        refused("fix: task.length=24, or less.", folder, "task.length=25")


# ---- generation --------------------------------------------------------------------------------------------------


# The prompt "12 and" leaves 11 of the 16 positions, and each later round 9, so few programs generate all tokens.
FIRST, SOME = 11, 11 + 4 * 9


def test_generated_text_goes_on_beyond_the_length(trained):
    task, params = trained
    texts = [task.generate(params, "12 and", SOME, seed=seed) for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert 40 < len(texts[0].encode("utf-8", "replace")) <= 150
    assert " " in texts[0]
    greedy = task.generate(params, "12 and", SOME, temperature=0)
    assert greedy == task.generate(params, "12 and", SOME, temperature=0, seed=7)
    short = task.generate(params, "12 and", FIRST, temperature=0).rstrip("\N{REPLACEMENT CHARACTER}") # half a character
    assert len(short) > 5 and greedy.startswith(short)


def test_generation_is_greedy_over_the_models_logits(trained):
    task, params = trained
    prompt = task._vocabulary.encode("12 and").tolist()
    following = task._following(params, prompt, FIRST, random.PRNGKey(0), temperature=0)
    tokens = np.array([[*prompt, *following[:-1]]])                               # no output depends on later tokens
    logits = jit(task.model.apply)(params, tokens)
    assert np.argmax(logits[0, len(prompt) - 1:], -1).tolist() == following


def test_a_stop_token_ends_the_text(trained):
    task, params = trained
    prompt = task._vocabulary.encode("12 and").tolist()
    free = task._following(params, prompt, FIRST, random.PRNGKey(0), temperature=0)
    task.artifacts["stop"] = [free[6]]
    try:
        ended = task._following(params, prompt, FIRST, random.PRNGKey(0), temperature=0)
    finally:
        task.artifacts["stop"] = []
    assert ended == free[:free.index(free[6]) + 1]


def test_the_report_shows_samples(trained):
    task, params = trained
    (title, text), = task.draw(types.SimpleNamespace(params=params)).items()
    assert "Samples" in title
    assert text.count("▸▸▸") == 3
    assert all(prompt[:20] in TEXT for prompt in task.artifacts["prompts"])       # they may extend into the next file


def test_an_empty_prompt(trained):
    with pytest.raises(DataError, match="the prompt is empty"):
        trained[0].generate(trained[1], "", 5)


def test_what_export_prints_writes_text(corpus, tmp_path, capsys):
    run(config(corpus, "steps=1", f"run_dir={tmp_path / 'run'}"), "text")
    capsys.readouterr()
    assert export.main([str(tmp_path / "run"), str(tmp_path / "exported")]) == 0
    *opening, use = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    namespace = {}
    exec("\n".join(opening), namespace)
    assert len(opening) == 2 and len(eval(use, namespace)) > 50


def test_the_command(trained, monkeypatch, capsys, tmp_path):
    task, params = trained
    opened = []

    def open_run(run, last=False):
        opened.append((run, last))
        return types.SimpleNamespace(task=task if run == "a" else object(), params=params, folder=tmp_path,
                                     config=types.SimpleNamespace(task=types.SimpleNamespace(name="table")))

    monkeypatch.setitem(sys.modules, "recipes.trained", types.SimpleNamespace(open_run=open_run))
    monkeypatch.delitem(sys.modules, "recipes.generate", raising=False)
    from recipes.generate import main

    assert main(["a", "--prompt", "12 and", "--tokens", str(FIRST), "--seed", "4", "--last"]) == 0
    assert capsys.readouterr().out == "12 and" + task.generate(params, "12 and", FIRST, seed=4) + "\n"
    assert main(["b", "--prompt", "x"]) == 1
    assert "fix: a run of the task language_model." in capsys.readouterr().err
    assert opened == [("a", True), ("b", False)]
    for wrong in (["--tokens", "0"], ["--top-p", "0"], ["--top-k", "0"], ["--temperature", "-1"], ["--seed", "-1"],
                  ["--temperature", "0", "--top-k", "3"]):
        with pytest.raises(SystemExit) as caught:
            main(["a", "--prompt", "x", *wrong])
        assert caught.value.code == 2
        assert wrong[0] in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "recipes.generate")
