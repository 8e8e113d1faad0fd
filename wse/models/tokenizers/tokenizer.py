"""The tokenizer of a model folder, whichever form it has."""

from __future__ import annotations

from pathlib import Path

from wse.errors import BadModel
from wse.models.spec import ModelSpec
from wse.models.tokenizers.json_tokenizer import json_tokenizer
from wse.models.tokenizers.llama2c_tokenizer import Llama2cTokenizer
from wse.models.tokenizers.sentencepiece_tokenizer import sentencepiece_tokenizer
from wse.models.tokenizers.token_text import Tokenizer
from wse.models.tokenizers.tokenizer_config import read_tokenizer_config


def load_tokenizer(folder: Path, spec: ModelSpec) -> Tokenizer | None:
    """The tokenizer of a model folder; None without any.

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
