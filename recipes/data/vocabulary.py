"""Conversion of texts to tokens and back: bytes of UTF-8, or a tokenizer of the library ``tokenizers``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from recipes.errors import DataError
from recipes.lazy import tokenizers

_PIECE = 1 << 16                                          # characters that are encoded together


class Vocabulary:
    """Tokens of a model.

    Args: saved: a tokenizer as JSON text; None: each byte is a token.

    >>> Vocabulary(None).encode("aé").tolist()
    [97, 195, 169]
    """

    def __init__(self, saved: str | None) -> None:
        self._tokenizer = None if saved is None else _tokenizer_of(saved)

    @property
    def size(self) -> int:
        return 256 if self._tokenizer is None else self._tokenizer.get_vocab_size()

    def encode(self, text: str, special: bool = False) -> np.ndarray:
        """i32[n].  Args: special: whether to add the tokenizer's tokens around a text, such as a start token."""
        if self._tokenizer is None:
            return np.frombuffer(text.encode(), np.uint8).astype(np.int32)
        return np.array(self._tokenizer.encode(text, add_special_tokens=special).ids, np.int32)

    def encode_all(self, texts: Sequence[str], length: int, special: bool) -> list[np.ndarray]:
        """The first ``length`` tokens of each text.  Args: special: as in `encode`; they are always included."""
        if self._tokenizer is None:
            return [self.encode(text)[:length] for text in texts]
        self._tokenizer.enable_truncation(length)
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=special)
        self._tokenizer.no_truncation()
        return [np.array(one.ids, np.int32) for one in encoded]

    def encode_counted(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """(Tokens i32[n], number of bytes of the text for each token i32[n])."""
        if self._tokenizer is None:
            tokens = self.encode(text)
            return tokens, np.ones(len(tokens), np.int32)
        pieces = list(_pieces(text))
        encoded = self._tokenizer.encode_batch(pieces, add_special_tokens=False)
        ids = [np.array(one.ids, np.int32) for one in encoded]
        sizes = [_bytes_of(piece, one.offsets) for piece, one in zip(pieces, encoded, strict=True)]
        return np.concatenate([*ids, np.zeros(0, np.int32)]), np.concatenate([*sizes, np.zeros(0, np.int32)])

    def decode(self, tokens: Sequence[int]) -> str:
        """The text; bytes that are not valid UTF-8 become U+FFFD."""
        if self._tokenizer is None:
            return bytes(int(token) for token in tokens).decode("utf-8", "replace")
        return self._tokenizer.decode([int(token) for token in tokens])


def train_tokenizer(texts: Iterable[str], size: int) -> str:
    """A byte-level BPE (Sennrich et al., 2016; Radford et al., 2019) of ``texts``, as JSON text.

    Its first 256 tokens are the bytes, so it encodes any text. It has fewer than ``size`` tokens if the texts have
    fewer pairs of tokens that occur twice.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, min_frequency=2, show_progress=False, special_tokens=[],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()


def _tokenizer_of(saved: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(saved)
    except Exception as err:                              # the library raises the class Exception
        raise DataError("tokenizer", "it cannot be read.", {"why": " ".join(str(err).split())},
                        fix="a tokenizer.json of the library tokenizers.") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _pieces(text: str) -> Iterable[str]:
    """Pieces of whole lines: they are encoded in parallel, with the offsets of one piece at a time in memory."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE) + 1 or len(text)
        yield text[start:end]
        start = end


def _bytes_of(text: str, offsets: Sequence[tuple[int, int]]) -> np.ndarray:
    """Bytes between the ends of the previous token and each token; their sum is the number of bytes of the text.

    Spaces that a tokenizer drops belong to the next token. Of several tokens within one character, the first has all
    its bytes.
    """
    widths = np.array([len(character.encode()) for character in text], np.int32)
    ends = np.concatenate([[0], np.cumsum(widths)])[np.array([end for _, end in offsets], int)]
    return np.diff(np.maximum.accumulate(ends), prepend=0).astype(np.int32)
