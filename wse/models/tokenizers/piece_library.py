"""Build tokenizers whose pieces represent a space as ▁: SentencePiece, and "llama" in GGUF files.

The results are objects of the tokenizers library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from wse.errors import BadModel
from wse.models.tokenizers.library_tokenizer import Library
from wse.models.tokenizers.tokenizer_config import MARKS, AddedToken, TokenizerConfig

SPACE: Final = "▁"
LONGEST_PIECE: Final = 2**10  # characters; every split of a piece into two is looked up


class PieceType(IntEnum):
    """Type of a SentencePiece token, numbered as in sentencepiece_model.proto and GGUF files."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The vocabulary of a SentencePiece tokenizer, whose tokens are called pieces.

    Attributes:
        texts, scores, kinds: Text, score and type of each piece; the index is the id.
        unknown_id: Id of the piece for unknown characters.
        has_bytes: Whether unknown characters are encoded as bytes, such as ``<0xE2>``.
    """

    texts: Sequence[str]
    scores: Sequence[float]
    kinds: Sequence[int]
    unknown_id: int
    has_bytes: bool


def bpe_library(pieces: Pieces, origin: str) -> Library:
    """Return a byte-pair encoder that merges the adjacent pair with the best merged score first.

    A SentencePiece file has no list of merges, so every split of a piece into two pieces counts as
    a merge. Merges are ordered by the score of the merged piece, then by the length of the left
    half, as in transformers' ``generate_merges``.

    Args:
        pieces: The vocabulary.
        origin: Path of the vocabulary's file, for messages.

    Raises:
        BadModel: Two pieces have the same text, a piece is too long, or there is no unknown piece.
    """
    from tokenizers import Tokenizer, models

    ids = unique_ids(pieces.texts, origin)
    _check_unknown(pieces, origin)
    texts = {
        t
        for t, kind in zip(pieces.texts, pieces.kinds, strict=True)
        if kind in (PieceType.NORMAL, PieceType.USER_DEFINED)
    }
    merges = []
    for text, score in zip(pieces.texts, pieces.scores, strict=True):
        if text not in texts:
            continue
        if len(text) > LONGEST_PIECE:
            raise BadModel(f"{origin}: a token of {len(text):,} characters; at most {LONGEST_PIECE:,} can be read")
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


def unigram_library(pieces: Pieces, origin: str) -> Library:
    """Return a unigram encoder, which selects the pieces with the largest sum of scores.

    Args:
        pieces: The vocabulary, whose tokens are called pieces.
        origin: Path of the vocabulary's file, for messages.

    Raises:
        BadModel: Two pieces have the same text, or there is no unknown piece.
    """
    from tokenizers import Tokenizer, models

    unique_ids(pieces.texts, origin)
    _check_unknown(pieces, origin)
    pairs = list(zip(pieces.texts, pieces.scores, strict=True))
    return Tokenizer(models.Unigram(pairs, unk_id=pieces.unknown_id, byte_fallback=pieces.has_bytes))


def spell_spaces(library: Library, *, prefix: bool, before_every_text: bool) -> None:
    """Configure a tokenizer to convert spaces to ▁ and back, like transformers 5's LlamaTokenizer.

    Args:
        library: The tokenizer, which is changed in place.
        prefix: Whether to prepend ▁ to a string that does not start with it. Decoding removes it.
        before_every_text: Whether to prepend ▁ to each text between special tokens as well.
    """
    from tokenizers import decoders, pre_tokenizers

    scheme = "never" if not prefix else "always" if before_every_text else "first"
    library.normalizer = None
    library.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
    decoder_steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence([*decoder_steps, decoders.Strip(" ", 1, 0)] if prefix else decoder_steps)


def mark_pieces(library: Library, texts: Sequence[str], kinds: Sequence[int]) -> None:
    """Configure a tokenizer to recognise control and user-defined pieces as a whole in any string.

    Control pieces and the unknown piece become special tokens, which have no text when decoded.

    Args:
        library: The tokenizer, which is changed in place.
        texts, kinds: Text and type of each piece; the index is the id.
    """
    special_kinds = (PieceType.UNKNOWN, PieceType.CONTROL)
    _add(
        library,
        [
            AddedToken(text=text, special=kind in special_kinds)
            for text, kind in zip(texts, kinds, strict=True)
            if kind in (*special_kinds, PieceType.USER_DEFINED)
        ],
    )


def add_tokens(library: Library, config: TokenizerConfig, origin: str) -> None:
    """Add the tokens that tokenizer_config.json lists to a tokenizer.

    Tokens to which the file assigns a role, such as the BOS token, become special tokens.

    Args:
        library: The tokenizer, which is changed in place.
        config: Content of tokenizer_config.json.
        origin: Path of the tokenizer's file, for messages.

    Raises:
        BadModel: A token's id in the tokenizer differs from its id in tokenizer_config.json.
    """
    _add(library, [token for token in config.added_tokens if token.token_id is not None])
    for token in config.added_tokens:
        known_id = library.token_to_id(token.text)
        if token.token_id is not None and known_id != token.token_id:
            raise BadModel(
                f"{origin}: has the token {token.text!r} as {known_id}, tokenizer_config.json as {token.token_id}; "
                "use files that belong together"
            )
    marks = [config.mark(name) for name in MARKS] + [t.text for t in config.added_tokens if t.token_id is None]
    added_tokens = library.get_added_tokens_decoder()
    new_texts = {m for m in marks if m and library.token_to_id(m) is not None} - {
        t.content for t in added_tokens.values()
    }
    _add(library, [AddedToken(text=text) for text in sorted(new_texts)])


def _add(library: Library, tokens: Sequence[AddedToken]) -> None:
    """Add tokens to a tokenizer of the tokenizers library, which is changed in place."""
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


def unique_ids(texts: Sequence[str], origin: str) -> dict[str, int]:
    """Return the id of each text, keyed by text. Raise BadModel if two ids have the same text."""
    ids: dict[str, int] = {}
    for i, text in enumerate(texts):
        if ids.setdefault(text, i) != i:
            raise BadModel(f"{origin}: the token {text!r} is there twice, as {ids[text]} and {i}; fetch the file again")
    return ids


def _check_unknown(pieces: Pieces, origin: str) -> None:
    """Raise BadModel if the id of the unknown piece is not in the vocabulary."""
    if not 0 <= pieces.unknown_id < len(pieces.texts):
        raise BadModel(
            f"{origin}: the unknown token {pieces.unknown_id} is none of {len(pieces.texts):,}; fetch the file again"
        )
