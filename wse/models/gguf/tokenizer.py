"""The tokenizer of a GGUF's vocabulary, run by the tokenizers library as transformers does.

The vocabulary is read as arrays of checked sizes (keys ``tokenizer.*``: docs/gguf.md of github.com/ggml-org/ggml), then
made into a tokenizer (transformers, integrations/gguf/gguf_tokenizer_mapping.py; for what a file leaves unsaid
llama.cpp's src/llama-vocab.cpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from wse.errors import BadModel, UnknownName
from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufFile
from wse.models.gguf.split_patterns import SPLITS
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, build, is_byte
from wse.models.tokenizers.piece_library import (
    SPACE,
    Kind,
    Pieces,
    bpe_library,
    mark_pieces,
    spell_spaces,
    unique_ids,
)

PREFIX: Final = "tokenizer.ggml."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GgufVocabulary:
    """The vocabulary of a GGUF file.

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
    """Return the vocabulary of a file; None where it has no tokens.

    Raises:
        BadModel: arrays have other elements or other lengths than they must, or an id is none of the tokens.
    """
    tokens = _elements(gguf, "tokens", str)
    if not tokens:
        return None
    config = ConfigReader(gguf.path, gguf.metadata)
    entries = {key.removeprefix(PREFIX): value for key, value in gguf.metadata.items() if key.startswith(PREFIX)}
    template = config.value("tokenizer.chat_template")
    scores = _elements(gguf, "scores", float, len(tokens))
    types = _elements(gguf, "token_type", int, len(tokens))
    ids = [name.removesuffix("_token_id") for name in entries if name.endswith("_token_id")]
    return GgufVocabulary(
        model=_text(config, "model") or "",
        pre=_text(config, "pre"),
        tokens=tokens,
        scores=scores,
        types=types,
        merges=_elements(gguf, "merges", str),
        special_ids={name: config.integer(f"{PREFIX}{name}_token_id", 0, len(tokens) - 1) for name in ids},
        flags={name: value for name, value in entries.items() if isinstance(value, bool)},
        chat_template=template if isinstance(template, str) else None,
    )


def _text(config: ConfigReader, name: str) -> str | None:
    value = config.value(PREFIX + name)
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


PIECES, BYTE_LEVEL = "llama", "gpt2"
UNSTATED_SPLIT: Final = "default"
NO_TOKENS: Final = ("none", "no_vocab")
# Of these architectures pieces merge in the order of their ids, whatever their scores, and no space precedes a text.
BY_ORDER: Final = frozenset({"gemma", "gemma2", "gemma3"})
# Of these a space is put before every stretch of text between special tokens, also where it begins with one.
SPACE_EVERYWHERE: Final = frozenset({"phi3"})
NAMED: Final = (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding"))


def gguf_tokenizer(gguf: GgufFile, spec: ModelSpec) -> LibraryTokenizer | None:
    """Return the tokenizer of a file; None where it has no tokens.

    Errors as of `read_vocabulary` and `tokenizer_of`.
    """
    vocabulary = read_vocabulary(gguf)
    architecture = str(gguf.metadata.get("general.architecture", ""))
    if vocabulary is None or vocabulary.model in NO_TOKENS:
        return None
    return tokenizer_of(vocabulary, architecture, str(gguf.path), spec)


def tokenizer_of(v: GgufVocabulary, architecture: str, where: str, spec: ModelSpec) -> LibraryTokenizer:
    """Return the tokenizer of a vocabulary.

    Raises:
        BadModel: its parts do not make a tokenizer, or it is of another size than ``spec``'s.
        UnknownName: it is of another model than pieces and byte-level pairs, or text is split in an unknown way.
    """
    splitting = SPLITS.get(v.pre or UNSTATED_SPLIT)
    if v.model == BYTE_LEVEL:
        if splitting is None:
            raise UnknownName("tokenizer.ggml.pre", str(v.pre), SPLITS, where=where)
        begins = splitting.begins
        library = build(lambda: _byte_level(v, where), where)
    elif v.model == PIECES:
        begins = True
        library = build(lambda: _piece_library(v, architecture, where), where)
    else:
        raise UnknownName("tokenizer.ggml.model", v.model, (PIECES, BYTE_LEVEL), where=where)
    wants = (("bos", v.flags.get("add_bos_token", begins)), ("eos", v.flags.get("add_eos_token", False)))
    before, behind = ([v.special_ids[name]] if is_added and name in v.special_ids else [] for name, is_added in wants)
    return LibraryTokenizer(library, spec, where, before=before, behind=behind, chat=_chat(v, where))


def _chat(v: GgufVocabulary, where: str) -> ChatTemplate | None:
    if v.chat_template is None:
        return None
    marks = tuple((mark, v.tokens[v.special_ids[name]]) for mark, name in NAMED if name in v.special_ids)
    end_of_turn = v.special_ids.get("eot")
    end_ids = () if end_of_turn is None else (end_of_turn,)
    return ChatTemplate(source=v.chat_template, where=where, marks=marks, end_ids=end_ids)


def _piece_library(v: GgufVocabulary, architecture: str, where: str) -> Library:
    from tokenizers import normalizers

    by_order = architecture in BY_ORDER
    scores = [-float(i) for i in range(len(v.tokens))] if by_order else v.scores
    if scores is None or not all(map(math.isfinite, scores)):
        msg = f"{where}: {PREFIX}scores: every token of model {PIECES} has a finite one; fetch the file again"
        raise BadModel(msg)
    texts = [SPACE * len(t) if t and not t.strip(" ") else t for t in v.tokens]
    kinds = [Kind.BYTE if is_byte(t) else kind for t, kind in zip(texts, _kinds(v), strict=True)]
    unknown_id = v.special_ids.get("unknown", 0)
    pieces = Pieces(texts=texts, scores=scores, kinds=kinds, unknown_id=unknown_id, has_bytes=Kind.BYTE in kinds)
    library = bpe_library(pieces, where)
    prefix = v.flags.get("add_space_prefix", not by_order)
    spell_spaces(library, prefix=prefix, every=False)
    if prefix and architecture in SPACE_EVERYWHERE:
        library.pre_tokenizer = None
        library.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    mark_pieces(library, texts, kinds)
    return library


def _byte_level(v: GgufVocabulary, where: str) -> Library:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    splitting = SPLITS[v.pre or UNSTATED_SPLIT]
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in v.merges or ())]
    library = Tokenizer(
        models.BPE(vocab=unique_ids(v.tokens, where), merges=merges, ignore_merges=splitting.whole_words)
    )
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in splitting.patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    mark_pieces(library, v.tokens, _kinds(v))
    return library


def _kinds(v: GgufVocabulary) -> list[int]:
    return [Kind.NORMAL] * len(v.tokens) if v.types is None else v.types
