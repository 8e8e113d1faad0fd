"""The vocabulary that a GGUF file carries in its metadata, checked.

Keys and meaning: github.com/ggml-org/ggml, docs/gguf.md, and llama.cpp's src/llama-vocab.cpp for what is not stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from wse.errors import BadModel
from wse.models.piece_library import Kind

PREFIX: Final = "tokenizer.ggml."
MODELS: Final = ("gpt2", "llama")
LONGEST_SHOWN: Final = 80  # characters of an offending value in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufVocabulary:
    """``texts``, ``scores`` and ``kinds`` by id; the last two are empty where the file has none.

    Attributes:
        model: ``llama`` (SentencePiece's pieces and scores) or ``gpt2`` (byte-level pairs).
        split: Name of the way that text is split before pairs merge (``tokenizer.ggml.pre``).
        merges: Pairs in the order in which they merge, each two texts with a space between.
        add_bos, add_eos, prefix: None where the file does not say: begin and end around a text, a space before it.
        architecture: ``general.architecture``, such as llama.
    """

    where: str
    architecture: str
    model: str
    split: str
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    kinds: tuple[int, ...]
    merges: tuple[str, ...]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    end_of_turn_id: int | None
    add_bos: bool | None
    add_eos: bool | None
    prefix: bool | None
    chat_template: str | None


def gguf_vocabulary(metadata: Mapping[str, Any], where: str) -> GgufVocabulary | None:
    """The vocabulary among a file's ``metadata``; None where it has none.

    Raises:
        BadModel: it is of an unsupported model, or its parts do not agree.
    """
    model = metadata.get(f"{PREFIX}model")
    if model in (None, "none", "no_vocab"):
        return None
    if model not in MODELS:
        _refuse(where, "model", model, f"supported: {', '.join(MODELS)}; give a folder with tokenizer.json")
    read = _Reader(metadata, where)
    texts = read.many("tokens", str)
    scores, kinds = read.many("scores", float, len(texts)), read.many("token_type", int, len(texts))
    if not all(map(math.isfinite, scores)):
        _refuse(where, "scores", "infinity or NaN", "fetch the file again")
    if model == "llama" and not scores:
        _refuse(where, "scores", None, "a vocabulary of model llama has one a token; fetch the file again")
    return GgufVocabulary(
        where=where,
        architecture=str(metadata.get("general.architecture", "")),
        model=model,
        split=read.one("pre", str) or "default",
        texts=tuple(texts),
        scores=tuple(scores),
        kinds=tuple(kinds) or (Kind.NORMAL,) * len(texts),
        merges=tuple(read.many("merges", str)),
        bos_id=read.token_id("bos_token_id", len(texts)),
        eos_id=read.token_id("eos_token_id", len(texts)),
        unknown_id=read.token_id("unknown_token_id", len(texts)),
        end_of_turn_id=read.token_id("eot_token_id", len(texts)),
        add_bos=read.one("add_bos_token", bool),
        add_eos=read.one("add_eos_token", bool),
        prefix=read.one("add_space_prefix", bool),
        chat_template=read.one("chat_template", str, "tokenizer."),
    )


class _Reader:
    """Values of a known type by key."""

    def __init__(self, metadata: Mapping[str, Any], where: str) -> None:
        self._metadata, self._where = metadata, where

    def one(self, key: str, kind: type, prefix: str = PREFIX) -> Any:
        """A value of ``kind``, None where there is none."""
        value = self._metadata.get(prefix + key)
        if value is not None and type(value) is not kind:
            _refuse(self._where, key, value, f"must be of type {kind.__name__}; fetch the file again")
        return value

    def many(self, key: str, kind: type, count: int | None = None) -> list[Any]:
        """A list of ``kind``, empty where there is none; with ``count``, that many where there are any."""
        value = self._metadata.get(PREFIX + key, [])
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, str) or not isinstance(value, Sequence):
            _refuse(self._where, key, value, f"must be a list of {kind.__name__}; fetch the file again")
        for item in value:
            if type(item) is not kind:
                _refuse(self._where, key, item, f"must be a list of {kind.__name__}; fetch the file again")
        if count is not None and len(value) not in (0, count):
            _refuse(self._where, key, f"{len(value):,} values", f"there are {count:,} tokens; fetch the file again")
        return list(value)

    def token_id(self, key: str, count: int) -> int | None:
        """An id below ``count``."""
        value: int | None = self.one(key, int)
        if value is not None and not 0 <= value < count:
            _refuse(self._where, key, value, f"there are {count:,} tokens; fetch the file again")
        return value


def _refuse(where: str, key: str, value: object, remedy: str) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "…"
    msg = f"{where}: {PREFIX}{key} = {shown}: {remedy}"
    raise BadModel(msg)
