"""Texts, vocabularies and windows of tokens."""

import hashlib
import json

import numpy as np
import pytest

from recipes.data.passages import MODULES, module_passages, read_passages, table_passages
from recipes.data.splits import split_by_position
from recipes.data.tables import read_table
from recipes.data.text import STDLIB, Windows, digest, encodings_fact, read_files, read_modules
from recipes.data.vocabulary import Vocabulary, train_tokenizer
from recipes.errors import DataError

TEXT = "def f(x):\n    return x + 1  # größer als x\n" * 40


@pytest.fixture(scope="module")
def bpe():
    return Vocabulary(train_tokenizer([TEXT], 280))


def test_the_standard_library_has_the_modules():
    texts = read_modules(STDLIB)
    assert [each.name for each in texts] == list(STDLIB)
    assert set(MODULES) <= set(STDLIB)
    assert 2.5e6 < sum(len(each.text) for each in texts) < 3.5e6
    assert digest(texts) != digest(texts[1:])


def test_files_are_read_in_order_and_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.md", "inner/d.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode() + b"\r\n")
    texts = read_files([tmp_path / "c.md", tmp_path, tmp_path / "a.txt"], "**/*.txt")
    assert [each.text for each in texts] == ["c.md\r\n", "a.txt\r\n", "b.txt\r\n", "inner/d.txt\r\n"]
    assert digest(texts[:1]) == hashlib.sha256(b"c.md\r\n\0").hexdigest()[:12]


@pytest.mark.parametrize(("content", "message"), [
    (None, "text: the text file is missing."), (b"a\x01\xff", "text: the file is not a text."),
    (b"", "text: the files are empty.")])
def test_files_that_cannot_be_read(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_files([tmp_path / "a.txt"], "*")
    assert str(caught.value).startswith(message)
    assert "fix: " in str(caught.value)


SAMPLE = "Größe, 5 €\nzwei\n"
ENCODED = {"UTF-8": SAMPLE.encode(), "UTF-8 with a mark": SAMPLE.encode("utf-8-sig"), "UTF-16": SAMPLE.encode("utf-16"),
           "UTF-16, big end first": b"\xfe\xff" + SAMPLE.encode("utf-16-be"), "UTF-32": SAMPLE.encode("utf-32"),
           "UTF-16 without a mark": "size, 5\ntwo\n".encode("utf-16-le"), "Windows-1252": SAMPLE.encode("cp1252"),
           "UTF-16 without a mark, big end first": "size, 5\ntwo\n".encode("utf-16-be"),
           "Latin-1": "Größe, 5 \x81\n".encode("latin-1"), "UTF-8, long": ("é" * 10_000).encode(), "ASCII": b"a,b\n"}


@pytest.mark.parametrize("name", ENCODED)
def test_a_text_in_any_encoding(tmp_path, name):
    (tmp_path / "a.txt").write_bytes(ENCODED[name])
    (text,) = read_files([tmp_path / "a.txt"], "*")
    plain = {"Latin-1": "Größe, 5 \x81\n", "UTF-8, long": "é" * 10_000, "ASCII": "a,b\n"}
    wanted = "size, 5\ntwo\n" if "without" in name else plain.get(name, SAMPLE)
    assert text.text.removeprefix("\ufeff") == wanted
    fact = encodings_fact([text])
    assert fact == {} if name.startswith(("UTF-8", "ASCII")) else name.partition(" ")[0].strip(",") in fact["encoding"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl"])
def test_a_table_in_any_encoding(tmp_path, ending, encoding):
    row = {"Größe": "5 €", "b, c": "é"}
    text = {"csv": 'Größe,"b, c"\n5 €,é\n', "tsv": "Größe\tb, c\n5 €\té\n"}.get(ending)
    text = text or json.dumps(row, ensure_ascii=False)
    (tmp_path / f"a.{ending}").write_bytes(text.encode(encoding))
    table = read_table(tmp_path / f"a.{ending}")
    assert {name: table[name].texts().tolist() for name in table} == {name: [value] for name, value in row.items()}
    assert ("encoding" in table.layout.facts()) == (encoding != "utf-8-sig")


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff", b"PK\x03\x04\xff\0", b"\xff\x00\x01"])
def test_a_file_that_is_not_a_text(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match="the file is not a text"):
        read_files([tmp_path / "a.txt"], "*")


def test_a_folder_without_matches(tmp_path):
    with pytest.raises(DataError, match="no file that matches task.pattern"):
        read_files([tmp_path], "*.txt")


@pytest.mark.parametrize("n", [0, 1, 7, 100])
def test_a_split_by_position_is_disjoint_and_whole(n):
    parts = split_by_position(n, (0.5, 0.3))
    assert [i for part in parts.values() for i in range(n)[part]] == list(range(n))
    assert parts["test"] == slice(n - round(0.3 * n), n)


# ---- vocabularies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "a", "größer 🙂\n\n  x", TEXT])
def test_tokens_give_the_text_back_and_count_its_bytes(bpe, text):
    for vocabulary in (Vocabulary(None), bpe):
        tokens, sizes = vocabulary.encode_counted(text)
        assert vocabulary.decode(tokens) == text
        assert sizes.sum() == len(text.encode())
        assert tokens.size == sizes.size
        assert not tokens.size or tokens.max() < vocabulary.size


def test_a_tokenizer_has_the_size_and_is_the_same_every_time(bpe):
    assert bpe.size == 280
    assert train_tokenizer([TEXT, "abc"], 300) == train_tokenizer([TEXT, "abc"], 300)
    assert len(bpe.encode(TEXT)) < len(TEXT) / 2


def test_long_texts_are_encoded_in_pieces(bpe):
    text = TEXT * 60                                      # more than one piece, each of whole lines
    tokens, sizes = bpe.encode_counted(text)
    assert len(text) > 1 << 16
    assert bpe.decode(tokens) == text
    assert sizes.sum() == len(text.encode())


def test_truncation(bpe):
    for vocabulary in (Vocabulary(None), bpe):
        short, long = vocabulary.encode_all(["x", TEXT], 9, special=False)
        np.testing.assert_array_equal(long, vocabulary.encode(TEXT)[:9])
        assert len(short) == 1
        assert len(vocabulary.encode(TEXT)) > 9           # and not after it


def test_a_damaged_tokenizer():
    with pytest.raises(DataError, match="tokenizer: it cannot be read"):
        Vocabulary("{}")


# ---- windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 9, 10, 11, 12, 50])
def test_windows_of_an_evaluation_predict_each_token_once(n):
    tokens, sizes = np.arange(100, 100 + n), np.arange(n)
    windows = Windows(tokens, sizes, 5, 5, only_whole=False)
    batch = windows.take(np.arange(len(windows)))
    counts = batch["counts"] > 0
    np.testing.assert_array_equal(batch["y"][counts], tokens[1:])
    np.testing.assert_array_equal(batch["x"][counts], tokens[:-1])
    assert batch["bytes"].sum() == sizes[1:].sum()
    assert not batch["y"][~counts].any()


@pytest.mark.parametrize(("n", "stride", "starts"), [(21, 5, [0, 5, 10, 15]), (20, 5, [0, 5, 10]), (8, 1, [0, 1, 2]),
                                                     (12, 3, [0, 3, 6]), (4, 5, [0])])
def test_windows_of_training_are_whole(n, stride, starts):
    windows = Windows(np.arange(n), np.ones(n, int), 5, stride, only_whole=True)
    batch = windows.take(np.arange(len(windows)))
    assert batch["x"][:, 0].tolist() == starts
    assert batch["counts"].all() == (n > 5)


# ---- passages ---------------------------------------------------------------------------------------------------


def test_passages_of_modules_are_disjoint_and_in_order():
    data = module_passages(200, (0.1, 0.1))
    assert set(map(len, data.texts)) == {200}
    for split, ids in data.rows.items():
        assert set(data.labels[ids]) == set(range(8)), split
    assert sorted(np.concatenate(list(data.rows.values()))) == list(range(len(data.texts)))
    text = read_modules(["turtle"])[0].text
    mine = data.labels == data.classes.index("turtle")
    last = [data.texts[i] for i in data.rows["test"] if mine[i]][-1]
    assert text.rindex(last) >= 0.9 * len(text)


def test_passages_of_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f'"one, {i}",{"ab"[i % 2]}\n' for i in range(20)))
    data = table_passages(tmp_path / "a.csv", "text", "label", (0.2, 0.2), seed=0)
    assert (data.classes, data.texts[1], data.labels[:3].tolist()) == (["a", "b"], "one, 1", [0, 1, 0])
    assert {split: len(ids) for split, ids in data.rows.items()} == {"train": 12, "val": 4, "test": 4}
    assert [*read_passages(tmp_path / "a.csv", "text").values()] == data.texts


@pytest.mark.parametrize(("text", "message"), [
    ("text,lab\na,b\n", "there is no column 'label'"), ("text,label\na,b\n,c\n", "values are missing."),
    ("text,label\na,b\nc,b\n", "fewer than two classes"), ("text,label\n", "table: the file has no rows.")])
def test_tables_that_do_not_fit(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        table_passages(tmp_path / "a.csv", "text", "label", (0.2, 0.2), seed=0)


def test_passages_in_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo \n")
    assert read_passages(tmp_path / "a.txt", "text") == {1: "one", 3: "two "}
    for name, content, message in (("no.txt", None, "is missing"), ("b.txt", b"\n\n", "no lines"),
                                   ("c.txt", b"\x01\xff", "is not a text")):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_passages(tmp_path / name, "text")
