"""Build the tokenizer of a GGUF file with the tokenizers library.

The vocabulary is read from the keys ``tokenizer.*`` (docs/gguf.md of github.com/ggml-org/ggml). The
tokenizer is built as in transformers (integrations/gguf/gguf_tokenizer_mapping.py). Defaults for
absent keys follow llama.cpp (src/llama-vocab.cpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from wse.errors import BadModel, UnknownName
from wse.models.configs.config_reader import ConfigReader
from wse.models.gguf.file import GgufFile
from wse.models.gguf.split_patterns import SPLITS, Split
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, build, is_byte
from wse.models.tokenizers.piece_library import (
    SPACE,
    Pieces,
    PieceType,
    bpe_library,
    mark_pieces,
    spell_spaces,
    unique_ids,
)

PREFIX: Final = "tokenizer.ggml."
PIECES, BYTE_LEVEL = "llama", "gpt2"
UNSTATED_SPLIT: Final = "default"
NO_TOKENS: Final = ("none", "no_vocab")
# Architectures whose pieces merge in the order of their ids, regardless of their scores. No space precedes a text.
BY_ORDER: Final = frozenset({"gemma", "gemma2", "gemma3"})
# Architectures that put a space before each text between special tokens, even if it starts with a space.
SPACE_EVERYWHERE: Final = frozenset({"phi3"})
TEMPLATE_TOKENS: Final = (
    ("bos_token", "bos"),
    ("eos_token", "eos"),
    ("unk_token", "unknown"),
    ("pad_token", "padding"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GgufVocabulary:
    """Tokenizer data from a GGUF file.

    Attributes:
        model: Type of the tokenizer: ``llama`` (SentencePiece), ``gpt2`` (byte-level BPE) and
            others.
        pre: Name of the rule that splits text before BPE; None if the file has none.
        tokens: Text of each token; the index is the token id.
        scores: Score of each token; None if absent.
        types: Type of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
            None if absent.
        merges: Pairs of tokens that BPE merges, separated by a space, in rank order; None if
            absent.
        special_ids: Ids of special tokens, keyed by their names in the file, such as bos, eos,
            unknown, padding and eot.
        flags: Boolean settings, keyed by names such as add_bos_token and add_space_prefix.
        chat_template: Jinja chat template; None if absent.
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
    """Return the vocabulary of a GGUF file, or None if it has no tokens.

    Raises:
        BadModel: An array has the wrong length or element type, or the id of a special token is not
            in the vocabulary.
    """
    tokens = _elements(gguf, "tokens", str)
    if not tokens:
        return None
    config = ConfigReader(gguf.path, gguf.metadata)
    entries = {key.removeprefix(PREFIX): value for key, value in gguf.metadata.items() if key.startswith(PREFIX)}
    template = config.value("tokenizer.chat_template")
    ids = [name.removesuffix("_token_id") for name in entries if name.endswith("_token_id")]
    return GgufVocabulary(
        model=config.text(f"{PREFIX}model") or "",
        pre=config.text(f"{PREFIX}pre"),
        tokens=tokens,
        scores=_elements(gguf, "scores", float, len(tokens)),
        types=_elements(gguf, "token_type", int, len(tokens)),
        merges=_elements(gguf, "merges", str),
        special_ids={name: config.integer(f"{PREFIX}{name}_token_id", 0, len(tokens) - 1) for name in ids},
        flags={name: value for name, value in entries.items() if isinstance(value, bool)},
        chat_template=template if isinstance(template, str) else None,
    )


def _elements(gguf: GgufFile, name: str, kind: type[Any], length: int | None = None) -> list[Any] | None:
    """Return the elements of an array in the tokenizer metadata, or None if the array is absent.

    Args:
        gguf: The GGUF file.
        name: Key without the prefix ``tokenizer.ggml.``.
        kind: Required type of the elements.
        length: Required number of elements; None for any number.

    Raises:
        BadModel: The type or number of elements is wrong.
    """
    elements = gguf.elements(PREFIX + name)
    if elements is None:
        return None
    if elements and type(elements[0]) is not kind:
        raise BadModel(f"{gguf.path}: {PREFIX}{name} must be an array of {kind.__name__}; fetch the file again")
    if length is not None and len(elements) != length:
        raise BadModel(
            f"{gguf.path}: {PREFIX}{name} has {len(elements):,} elements for {length:,} tokens; fetch the file again"
        )
    return elements


def gguf_tokenizer(gguf: GgufFile, spec: ModelSpec) -> LibraryTokenizer | None:
    """Return the tokenizer of a GGUF file, or None if it has no tokens.

    Raises:
        BadModel: The vocabulary is damaged or inconsistent, or differs in size from the model's.
        UnknownName: The tokenizer's type or its rule for splitting text is not supported.
    """
    vocabulary = read_vocabulary(gguf)
    if vocabulary is None or vocabulary.model in NO_TOKENS:
        return None
    architecture, origin = str(gguf.metadata.get("general.architecture", "")), str(gguf.path)
    splitting = SPLITS.get(vocabulary.pre or UNSTATED_SPLIT)
    if vocabulary.model == BYTE_LEVEL:
        if splitting is None:
            raise UnknownName("tokenizer.ggml.pre", str(vocabulary.pre), SPLITS, place=origin)
        adds_bos = splitting.adds_bos
        library = build(lambda: _byte_level(vocabulary, splitting, origin), origin)
    elif vocabulary.model == PIECES:
        adds_bos = True
        library = build(lambda: _piece_library(vocabulary, architecture, origin), origin)
    else:
        raise UnknownName("tokenizer.ggml.model", vocabulary.model, (PIECES, BYTE_LEVEL), place=origin)
    added_tokens = (
        ("bos", vocabulary.flags.get("add_bos_token", adds_bos)),
        ("eos", vocabulary.flags.get("add_eos_token", False)),
    )
    prefix_ids, suffix_ids = (
        [vocabulary.special_ids[name]] if is_added and name in vocabulary.special_ids else []
        for name, is_added in added_tokens
    )
    return LibraryTokenizer(
        library, spec, origin, prefix_ids=prefix_ids, suffix_ids=suffix_ids, chat=_chat(vocabulary, origin)
    )


def _chat(vocabulary: GgufVocabulary, origin: str) -> ChatTemplate | None:
    """Return the chat template of a vocabulary, or None if it has none."""
    if vocabulary.chat_template is None:
        return None
    marks = tuple(
        (mark, vocabulary.tokens[vocabulary.special_ids[name]])
        for mark, name in TEMPLATE_TOKENS
        if name in vocabulary.special_ids
    )
    end_of_turn = vocabulary.special_ids.get("eot")
    end_ids = () if end_of_turn is None else (end_of_turn,)
    return ChatTemplate(source=vocabulary.chat_template, origin=origin, marks=marks, end_ids=end_ids)


def _piece_library(vocabulary: GgufVocabulary, architecture: str, origin: str) -> Library:
    """Build a tokenizer with the package ``tokenizers`` from a SentencePiece vocabulary.

    Args:
        vocabulary: The vocabulary.
        architecture: Value of ``general.architecture``, on which some details depend.
        origin: Path of the file, for messages.

    Raises:
        BadModel: A token has no finite score.
    """
    from tokenizers import normalizers

    by_order = architecture in BY_ORDER
    scores = [-float(i) for i in range(len(vocabulary.tokens))] if by_order else vocabulary.scores
    if scores is None or not all(map(math.isfinite, scores)):
        raise BadModel(
            f"{origin}: {PREFIX}scores: every token of model {PIECES} has a finite one; fetch the file again"
        )
    texts = [SPACE * len(t) if t and not t.strip(" ") else t for t in vocabulary.tokens]
    kinds = [PieceType.BYTE if is_byte(t) else kind for t, kind in zip(texts, _kinds(vocabulary), strict=True)]
    unknown_id = vocabulary.special_ids.get("unknown", 0)
    pieces = Pieces(texts=texts, scores=scores, kinds=kinds, unknown_id=unknown_id, has_bytes=PieceType.BYTE in kinds)
    library = bpe_library(pieces, origin)
    prefix = vocabulary.flags.get("add_space_prefix", not by_order)
    spell_spaces(library, prefix=prefix, before_every_text=False)
    if prefix and architecture in SPACE_EVERYWHERE:
        library.pre_tokenizer = None
        library.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    mark_pieces(library, texts, kinds)
    return library


def _byte_level(vocabulary: GgufVocabulary, splitting: Split, origin: str) -> Library:
    """Build a tokenizer with the package ``tokenizers`` from a byte-level BPE vocabulary.

    Args:
        vocabulary: The vocabulary.
        splitting: Rule that splits text before BPE.
        origin: Path of the file, for messages.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in vocabulary.merges or ())]
    library = Tokenizer(
        models.BPE(vocab=unique_ids(vocabulary.tokens, origin), merges=merges, ignore_merges=splitting.whole_words)
    )
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in splitting.patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    mark_pieces(library, vocabulary.tokens, _kinds(vocabulary))
    return library


def _kinds(vocabulary: GgufVocabulary) -> list[int]:
    """Return the type of each token; all are normal if the file contains no types."""
    return [PieceType.NORMAL] * len(vocabulary.tokens) if vocabulary.types is None else vocabulary.types
