"""The tokenizer of a SentencePiece ``.model``, run by the tokenizers library."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wse.models.spec import ModelSpec
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, built
from wse.models.tokenizers.piece_library import (
    add_tokens,
    likeliest_library,
    mark_pieces,
    merging_library,
    spell_spaces,
)
from wse.models.tokenizers.sentencepiece_file import BPE, SentencePieceModel, read_sentencepiece
from wse.models.tokenizers.tokenizer_config import TokenizerConfig

OUTER_SPACES: Final = "^ +| +$"
SEVERAL_SPACES: Final = " {2,}"


def sentencepiece_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """The tokenizer in ``path``.

    Begin and end are put around a text where tokenizer_config.json says so, as by transformers 5.

    Raises:
        BadModel: the file is damaged, asks for what is not supported, or has another vocabulary than ``spec``'s.
    """
    model, where = read_sentencepiece(path), str(path)
    library = built(lambda: _library(model, config, where), where)
    normalizer = built(lambda: _normalizer(model), where)
    mark_pieces(library, model.pieces.texts, model.pieces.kinds)
    add_tokens(library, config, where)
    begin = _mark(library, config.mark("bos_token"), model.bos_id) if config.add_bos_token else []
    end = _mark(library, config.mark("eos_token"), model.eos_id) if config.add_eos_token else []
    rewrite, chat = normalizer.normalize_str, config.chat(path.parent)
    return LibraryTokenizer(library, spec, where, before=begin, behind=end, rewrite=rewrite, chat=chat)


def _mark(library: Library, name: str | None, own: int) -> list[int]:
    """The id of the token that tokenizer_config.json names, else the model's ``own``; nothing where there is none."""
    token = own if name is None else library.token_to_id(name)
    return [] if token is None or library.id_to_token(max(token, 0)) is None or token < 0 else [token]


def _library(model: SentencePieceModel, config: TokenizerConfig, where: str) -> Library:
    make = merging_library if model.algorithm == BPE else likeliest_library
    library = make(model.pieces, where)
    spell_spaces(library, prefix=model.prefix and config.add_prefix_space, every=config.legacy)
    return library


def _normalizer(model: SentencePieceModel) -> Library:
    """What is done to a text before it is cut."""
    from tokenizers import Regex, normalizers

    steps: list[Library] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.single_spaces:
        steps += [normalizers.Replace(Regex(OUTER_SPACES), ""), normalizers.Replace(Regex(SEVERAL_SPACES), " ")]
    return normalizers.Sequence(steps)
