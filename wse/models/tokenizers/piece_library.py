"""Tokenizers library objects of vocabularies whose pieces spell a space as ▁: SentencePiece's, and a GGUF's "llama"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from wse.errors import BadModel
from wse.models.tokenizers.library_tokenizer import Library
from wse.models.tokenizers.tokenizer_config import MARKS, AddedToken, TokenizerConfig

SPACE: Final = "▁"
LONGEST_PIECE: Final = 2**10  # characters; every way to cut a piece in two is looked up


class Kind(IntEnum):
    """The kind of a piece, numbered as in sentencepiece_model.proto and in GGUF files."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A vocabulary: text, score and kind of every id, each list as long as the vocabulary."""

    texts: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    unknown_id: int
    has_bytes: bool  # unknown characters are spelled in pieces such as <0xE2>


def bpe_library(pieces: Pieces, where: str) -> Library:
    """Return a byte-pair encoding in which the neighbours with the best joint score are merged first.

    The pairs that make a piece are found from the vocabulary, as it lists no merges; among pairs of one piece the one
    with the shorter left half comes first, which is the order of transformers' ``generate_merges``.
    """
    from tokenizers import Tokenizer, models

    ids = unique_ids(pieces.texts, where)
    _check_unknown(pieces, where)
    texts = {t for t, kind in zip(pieces.texts, pieces.kinds, strict=True) if kind in (Kind.NORMAL, Kind.USER_DEFINED)}
    merges = []
    for text, score in zip(pieces.texts, pieces.scores, strict=True):
        if text not in texts:
            continue
        if len(text) > LONGEST_PIECE:
            msg = f"{where}: a token of {len(text):,} characters; at most {LONGEST_PIECE:,} can be read"
            raise BadModel(msg)
        for cut in range(1, len(text)):
            if text[:cut] in texts and text[cut:] in texts:
                merges.append((-score, cut, ids[text], text[:cut], text[cut:]))
    merges.sort()
    return Tokenizer(
        models.BPE(
            vocab=ids,
            merges=[(first, second) for *_, first, second in merges],
            unk_token=pieces.texts[pieces.unknown_id],
            fuse_unk=True,
            byte_fallback=pieces.has_bytes,
        )
    )


def unigram_library(pieces: Pieces, where: str) -> Library:
    """Return a unigram model, which selects the pieces with the largest sum of scores."""
    from tokenizers import Tokenizer, models

    unique_ids(pieces.texts, where)
    _check_unknown(pieces, where)
    pairs = list(zip(pieces.texts, pieces.scores, strict=True))
    return Tokenizer(models.Unigram(pairs, unk_id=pieces.unknown_id, byte_fallback=pieces.has_bytes))


def spell_spaces(library: Library, *, prefix: bool, every: bool) -> None:
    """Replace spaces by ▁ and back, like LlamaTokenizer of transformers 5.

    With ``prefix`` one is put before a text that does not begin with it, with ``every`` before each stretch of text
    between special tokens too. It is taken away in decoding.
    """
    from tokenizers import decoders, pre_tokenizers

    scheme = "never" if not prefix else "always" if every else "first"
    library.normalizer = None
    library.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
    back = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)] if prefix else back)


def mark_pieces(library: Library, texts: Sequence[str], kinds: Sequence[int]) -> None:
    """Let control and user-defined pieces match whole in any text; control pieces and the unknown one are special."""
    marks = (Kind.UNKNOWN, Kind.CONTROL)
    _add(
        library,
        [
            AddedToken(text=text, special=kind in marks)
            for text, kind in zip(texts, kinds, strict=True)
            if kind in (*marks, Kind.USER_DEFINED)
        ],
    )


def add_tokens(library: Library, config: TokenizerConfig, where: str) -> None:
    """Add the tokens of tokenizer_config.json, and mark its named tokens.

    Raises:
        BadModel: a token gets another id than the file states.
    """
    _add(library, [token for token in config.added if token.token_id is not None])
    for token in config.added:
        known_id = library.token_to_id(token.text)
        if token.token_id is not None and known_id != token.token_id:
            msg = (
                f"{where}: has the token {token.text!r} as {known_id}, tokenizer_config.json as {token.token_id}; "
                "use files that belong together"
            )
            raise BadModel(msg)
    marks = [config.mark(name) for name in MARKS] + [t.text for t in config.added if t.token_id is None]
    known = library.get_added_tokens_decoder()
    new = {m for m in marks if m and library.token_to_id(m) is not None} - {t.content for t in known.values()}
    _add(library, [AddedToken(text=text) for text in sorted(new)])


def _add(library: Library, tokens: Sequence[AddedToken]) -> None:
    import tokenizers

    library.add_tokens(
        [
            tokenizers.AddedToken(
                token.text,
                special=token.special,
                normalized=token.normalized,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                single_word=token.single_word,
            )
            for token in tokens
        ]
    )


def unique_ids(texts: Sequence[str], where: str) -> dict[str, int]:
    """Return each text's id; `BadModel` where two have one text."""
    ids: dict[str, int] = {}
    for i, text in enumerate(texts):
        if ids.setdefault(text, i) != i:
            msg = f"{where}: the token {text!r} is there twice, as {ids[text]} and {i}; fetch the file again"
            raise BadModel(msg)
    return ids


def _check_unknown(pieces: Pieces, where: str) -> None:
    if not 0 <= pieces.unknown_id < len(pieces.texts):
        msg = f"{where}: the unknown token {pieces.unknown_id} is none of {len(pieces.texts):,}; fetch the file again"
        raise BadModel(msg)
