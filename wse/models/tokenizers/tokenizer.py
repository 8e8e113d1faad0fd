"""The tokenizer of a model folder: a tokenizer.json of Hugging Face, a SentencePiece ``.model``, or llama2.c's file.

The first two are run by the tokenizers library.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wse.errors import BadModel
from wse.files import read_file
from wse.models.spec import ModelSpec
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, build
from wse.models.tokenizers.llama2c_tokenizer import Llama2cTokenizer
from wse.models.tokenizers.piece_library import (
    add_tokens,
    bpe_library,
    mark_pieces,
    spell_spaces,
    unigram_library,
)
from wse.models.tokenizers.sentencepiece_file import BPE, SentencePieceModel, read_sentencepiece
from wse.models.tokenizers.token_text import Tokenizer
from wse.models.tokenizers.tokenizer_config import TokenizerConfig, read_tokenizer_config

FILE_LIMIT_BYTES: Final = 256 * 2**20
BYTE_LEVEL: Final = b'"ByteLevel"'
SUBWORD_PREFIX: Final = re.compile(rb'"continuing_subword_prefix"\s*:\s*"[^"]')
# transformers (models/auto/tokenization_auto.py, MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS) takes a tokenizer.json of
# these as it is, whatever class is declared.
CLASS_IGNORED: Final = frozenset({"phi3", "qwen2"})


def json_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """Return a tokenizer.json, run by the tokenizers library like transformers 5.

    What is put around a text is what the file's post-processor says: ``add_bos_token`` does not count beside it
    (``PreTrainedTokenizerBase._from_pretrained``). Of the declared class LlamaTokenizer, a file that is not byte-level
    spells spaces as that class does (``models/llama/tokenization_llama.py``), whatever its normalizer.

    Raises:
        BadModel: the file is damaged, or of another vocabulary than ``spec``'s.
    """
    data = read_file(path, FILE_LIMIT_BYTES, BadModel)
    if SUBWORD_PREFIX.search(data):  # the library ends the process over merges that lack it
        msg = f"{path}: continuing_subword_prefix marks pieces inside words, which is not supported; supported: null"
        raise BadModel(msg)
    library = build(lambda: _parse(data), str(path))
    if config.tokenizer_class == "LlamaTokenizer" and BYTE_LEVEL not in data and spec.family not in CLASS_IGNORED:
        spell_spaces(library, prefix=config.add_prefix_space, every=config.legacy)
    add_tokens(library, config, str(path))
    return LibraryTokenizer(library, spec, str(path), chat=config.chat(path.parent))


def _parse(data: bytes) -> Library:
    import tokenizers

    return tokenizers.Tokenizer.from_str(data.decode("utf-8"))


OUTER_SPACES: Final = "^ +| +$"
SEVERAL_SPACES: Final = " {2,}"


def sentencepiece_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """Return the tokenizer in ``path``.

    Begin and end are put around a text where tokenizer_config.json says so, as by transformers 5.

    Raises:
        BadModel: the file is damaged, asks for what is not supported, or has another vocabulary than ``spec``'s.
    """
    model, where = read_sentencepiece(path), str(path)
    library = build(lambda: _library(model, config, where), where)
    normalizer = build(lambda: _normalizer(model), where)
    mark_pieces(library, model.pieces.texts, model.pieces.kinds)
    add_tokens(library, config, where)
    begin = _mark(library, config.mark("bos_token"), model.bos_id) if config.add_bos_token else []
    end = _mark(library, config.mark("eos_token"), model.eos_id) if config.add_eos_token else []
    rewrite, chat = normalizer.normalize_str, config.chat(path.parent)
    return LibraryTokenizer(library, spec, where, before=begin, behind=end, rewrite=rewrite, chat=chat)


def _mark(library: Library, name: str | None, own: int) -> list[int]:
    """Return the id of the token that tokenizer_config.json names, or the model's ``own``.

    Nothing where there is none.
    """
    token = own if name is None else library.token_to_id(name)
    return [] if token is None or library.id_to_token(max(token, 0)) is None or token < 0 else [token]


def _library(model: SentencePieceModel, config: TokenizerConfig, where: str) -> Library:
    make = bpe_library if model.algorithm == BPE else unigram_library
    library = make(model.pieces, where)
    spell_spaces(library, prefix=model.prefix and config.add_prefix_space, every=config.legacy)
    return library


def _normalizer(model: SentencePieceModel) -> Library:
    """Return the library's normalizer, which is applied to a text before it is split."""
    from tokenizers import Regex, normalizers

    steps: list[Library] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.single_spaces:
        steps += [normalizers.Replace(Regex(OUTER_SPACES), ""), normalizers.Replace(Regex(SEVERAL_SPACES), " ")]
    return normalizers.Sequence(steps)


def load_tokenizer(folder: Path, spec: ModelSpec) -> Tokenizer | None:
    """Return the tokenizer of a model folder; None without any.

    The first of tokenizer.json, tokenizer.model (SentencePiece), tokenizer.bin and tok*.bin (llama2.c).

    Raises:
        BadModel: the file is damaged, several tok*.bin compete, or its vocabulary is not the model's.
    """
    path, pieces = folder / "tokenizer.json", folder / "tokenizer.model"
    if path.exists():
        return json_tokenizer(path, spec, read_tokenizer_config(folder))
    if pieces.exists():
        return sentencepiece_tokenizer(pieces, spec, read_tokenizer_config(folder))
    files = [folder / "tokenizer.bin"]
    if not files[0].exists():
        files = sorted(folder.glob("tok*.bin"))
    if len(files) > 1:
        msg = f"{folder}: has {' and '.join(p.name for p in files)}; keep the model's own, as tokenizer.bin"
        raise BadModel(msg)
    return Llama2cTokenizer.read(files[0], spec) if files else None
