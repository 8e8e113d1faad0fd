"""Load the tokenizer of a model folder.

Supported are Hugging Face's tokenizer.json and SentencePiece ``.model`` files, both run by the
tokenizers library, and the binary files of llama2.c.
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
from wse.models.tokenizers.piece_library import add_tokens, bpe_library, mark_pieces, spell_spaces, unigram_library
from wse.models.tokenizers.sentencepiece_file import BPE, SentencePieceModel, read_sentencepiece
from wse.models.tokenizers.token_text import Tokenizer
from wse.models.tokenizers.tokenizer_config import TokenizerConfig, read_tokenizer_config

FILE_LIMIT_BYTES: Final = 256 * 2**20
BYTE_LEVEL: Final = b'"ByteLevel"'
SUBWORD_PREFIX: Final = re.compile(rb'"continuing_subword_prefix"\s*:\s*"[^"]')
# Families whose declared tokenizer class transformers ignores (models/auto/tokenization_auto.py,
# MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS): their tokenizer.json is used unchanged.
CLASS_IGNORED: Final = frozenset({"phi3", "qwen2"})


def json_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """Load a Hugging Face ``tokenizer.json`` into the tokenizers library.

    The result behaves as in transformers 5:

    - The post-processor in the file determines the special tokens at the beginning and end of a
      sequence. ``add_bos_token`` in tokenizer_config.json is ignored
      (``PreTrainedTokenizerBase._from_pretrained``).
    - If tokenizer_config.json declares the class LlamaTokenizer, spaces are encoded as in that
      class (``models/llama/tokenization_llama.py``) and the normalizer in the file is ignored. This
      does not apply to byte-level files, nor to the model families in ``CLASS_IGNORED``.

    Args:
        path: The tokenizer.json file.
        spec: The model, whose vocabulary the tokenizer must match.
        config: The content of tokenizer_config.json.

    Raises:
        BadModel: The file is damaged, uses ``continuing_subword_prefix``, or has a different
            vocabulary from the model's.
    """
    data = read_file(path, FILE_LIMIT_BYTES, BadModel)
    if SUBWORD_PREFIX.search(data):  # the library would end the process for merges without the prefix
        raise BadModel(
            f"{path}: continuing_subword_prefix marks pieces inside words, which is not supported; supported: null"
        )
    library = build(lambda: _parse(data), str(path))
    if config.tokenizer_class == "LlamaTokenizer" and BYTE_LEVEL not in data and spec.family not in CLASS_IGNORED:
        spell_spaces(library, prefix=config.add_prefix_space, before_every_text=config.legacy)
    add_tokens(library, config, str(path))
    return LibraryTokenizer(library, spec, str(path), chat=config.chat(path.parent))


def _parse(data: bytes) -> Library:
    """Parse the content of a tokenizer.json with the tokenizers library."""
    import tokenizers

    return tokenizers.Tokenizer.from_str(data.decode("utf-8"))


OUTER_SPACES: Final = "^ +| +$"
SEVERAL_SPACES: Final = " {2,}"


def sentencepiece_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """Load a SentencePiece ``.model`` file into the tokenizers library.

    As in transformers 5, BOS and EOS tokens are added to a sequence if tokenizer_config.json says
    so.

    Args:
        path: Path of the file.
        spec: The model, whose vocabulary the tokenizer must match.
        config: The content of tokenizer_config.json.

    Raises:
        BadModel: The file is damaged, requests a feature that is not supported, or has a different
            vocabulary from the model's.
    """
    model, origin = read_sentencepiece(path), str(path)
    library = build(lambda: _library(model, config, origin), origin)
    normalizer = build(lambda: _normalizer(model), origin)
    mark_pieces(library, model.pieces.texts, model.pieces.kinds)
    add_tokens(library, config, origin)
    begin = _mark(library, config.mark("bos_token"), model.bos_id) if config.add_bos_token else []
    end = _mark(library, config.mark("eos_token"), model.eos_id) if config.add_eos_token else []
    rewrite, chat = normalizer.normalize_str, config.chat(path.parent)
    return LibraryTokenizer(library, spec, origin, prefix_ids=begin, suffix_ids=end, rewrite=rewrite, chat=chat)


def _mark(library: Library, name: str | None, model_id: int) -> list[int]:
    """Return the id of a special token as a one-element list, or [] if there is no such token.

    Args:
        library: The tokenizer.
        name: Text of the token in tokenizer_config.json; None if it has none.
        model_id: Id of the token in the SentencePiece file, used if ``name`` is None. Negative if
            there is none.
    """
    token = model_id if name is None else library.token_to_id(name)
    return [] if token is None or library.id_to_token(max(token, 0)) is None or token < 0 else [token]


def _library(model: SentencePieceModel, config: TokenizerConfig, origin: str) -> Library:
    """Build a tokenizer of the tokenizers library from the vocabulary of a SentencePiece model."""
    make = bpe_library if model.algorithm == BPE else unigram_library
    library = make(model.pieces, origin)
    spell_spaces(library, prefix=model.prefix and config.add_prefix_space, before_every_text=config.legacy)
    return library


def _normalizer(model: SentencePieceModel) -> Library:
    """Return the normalizer of a SentencePiece model, which is applied before a string is split."""
    from tokenizers import Regex, normalizers

    steps: list[Library] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.single_spaces:
        steps += [normalizers.Replace(Regex(OUTER_SPACES), ""), normalizers.Replace(Regex(SEVERAL_SPACES), " ")]
    return normalizers.Sequence(steps)


def load_tokenizer(folder: Path, spec: ModelSpec) -> Tokenizer | None:
    """Return the tokenizer of a model folder, or None if it has none.

    The first of these files that exists is used: tokenizer.json, tokenizer.model (SentencePiece),
    tokenizer.bin and tok*.bin (llama2.c).

    Raises:
        BadModel: The file is damaged, there are several tok*.bin, or the vocabulary does not match
            the model.
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
        raise BadModel(f"{folder}: has {' and '.join(p.name for p in files)}; keep the model's own, as tokenizer.bin")
    return Llama2cTokenizer.read(files[0], spec) if files else None
