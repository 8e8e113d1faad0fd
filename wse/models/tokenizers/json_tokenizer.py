"""Reader of Hugging Face's tokenizer.json, through the tokenizers library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wse.errors import BadModel
from wse.files import read_file
from wse.models.spec import ModelSpec
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, built
from wse.models.tokenizers.piece_library import add_tokens, spell_spaces
from wse.models.tokenizers.tokenizer_config import TokenizerConfig

FILE_LIMIT_BYTES: Final = 256 * 2**20
BYTE_LEVEL: Final = b'"ByteLevel"'
SUBWORD_PREFIX: Final = re.compile(rb'"continuing_subword_prefix"\s*:\s*"[^"]')
# transformers (models/auto/tokenization_auto.py, MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS) takes a tokenizer.json of
# these as it is, whatever class is declared.
CLASS_IGNORED: Final = frozenset({"phi3", "qwen2"})


def json_tokenizer(path: Path, spec: ModelSpec, config: TokenizerConfig) -> LibraryTokenizer:
    """A tokenizer.json, run by the tokenizers library as transformers 5 does.

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
    library = built(lambda: _parsed(data), str(path))
    if config.tokenizer_class == "LlamaTokenizer" and BYTE_LEVEL not in data and spec.family not in CLASS_IGNORED:
        spell_spaces(library, prefix=config.add_prefix_space, every=config.legacy)
    add_tokens(library, config, str(path))
    return LibraryTokenizer(library, spec, str(path), chat=config.chat(path.parent))


def _parsed(data: bytes) -> Library:
    import tokenizers

    return tokenizers.Tokenizer.from_str(data.decode("utf-8"))
