"""The vocabulary inside a GGUF file, as arrays of checked sizes; what it means is for the tokenizers to say.

Keys ``tokenizer.*``: docs/gguf.md of github.com/ggml-org/ggml.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from wse.errors import BadModel
from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufFile

PREFIX: Final = "tokenizer.ggml."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GgufVocabulary:
    """The tokens of a file, as it states them.

    Attributes:
        model: ``llama`` (SentencePiece), ``gpt2`` (byte-level BPE) and others.
        pre: How text is cut up before BPE; None where the file does not say.
        tokens: The tokens by id; as many as ids.
        scores: As many floats; None where there are none.
        types: As many kinds of tokens (1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte); or None.
        merges: Pairs of tokens with a space between, in the order of their rank; or None.
        special_ids: Ids by their names in the file, such as bos, eos, unknown, padding, eot.
        flags: What is true or false of the tokenizer, such as add_bos_token and add_space_prefix.
        chat_template: Jinja text, or None.
    """

    model: str
    pre: str | None
    tokens: list[str]
    scores: list[float] | None
    types: list[int] | None
    merges: list[str] | None
    special_ids: dict[str, int]
    flags: dict[str, bool]
    chat_template: str | None


def read_vocabulary(gguf: GgufFile) -> GgufVocabulary | None:
    """The vocabulary, None where the file has no tokens.

    Raises:
        BadModel: arrays have other elements or other lengths than they must, or an id is none of the tokens.
    """
    tokens = _elements(gguf, "tokens", str)
    if not tokens:
        return None
    config = ConfigReader(gguf.path, gguf.metadata)
    own = {key.removeprefix(PREFIX): value for key, value in gguf.metadata.items() if key.startswith(PREFIX)}
    template = config.any("tokenizer.chat_template")
    scores = _elements(gguf, "scores", float, len(tokens))
    types = _elements(gguf, "token_type", int, len(tokens))
    ids = [name.removesuffix("_token_id") for name in own if name.endswith("_token_id")]
    return GgufVocabulary(
        model=_text(config, "model") or "",
        pre=_text(config, "pre"),
        tokens=tokens,
        scores=scores,
        types=types,
        merges=_elements(gguf, "merges", str),
        special_ids={name: config.integer(f"{PREFIX}{name}_token_id", 0, len(tokens) - 1) for name in ids},
        flags={name: value for name, value in own.items() if isinstance(value, bool)},
        chat_template=template if isinstance(template, str) else None,
    )


def _text(config: ConfigReader, name: str) -> str | None:
    value = config.any(PREFIX + name)
    if value is not None and not isinstance(value, str):
        config.refuse(PREFIX + name, value, "give a text")
    return value


def _elements(gguf: GgufFile, name: str, kind: type[Any], length: int | None = None) -> list[Any] | None:
    elements = gguf.elements(PREFIX + name)
    if elements is None:
        return None
    if elements and type(elements[0]) is not kind:
        msg = f"{gguf.path}: {PREFIX}{name} must be an array of {kind.__name__}; fetch the file again"
        raise BadModel(msg)
    if length is not None and len(elements) != length:
        msg = f"{gguf.path}: {PREFIX}{name} has {len(elements):,} elements for {length:,} tokens; fetch the file again"
        raise BadModel(msg)
    return elements
