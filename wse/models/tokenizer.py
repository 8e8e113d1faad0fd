"""The tokenizer of a model folder, whichever form it has."""

from __future__ import annotations

from pathlib import Path

from wse.errors import BadModel
from wse.models.json_tokenizer import JsonTokenizer
from wse.models.llama2c_tokenizer import Llama2cTokenizer
from wse.models.spec import ModelSpec
from wse.models.token_text import Tokenizer


def load_tokenizer(folder: Path, spec: ModelSpec) -> Tokenizer | None:
    """The tokenizer of a model folder: tokenizer.json, else tokenizer.bin, else tok*.bin; None without any.

    Raises:
        BadModel: the file is damaged, several tok*.bin compete, or its vocabulary is not the model's.
    """
    path = folder / "tokenizer.json"
    if path.exists():
        return JsonTokenizer(path, spec)
    found = [folder / "tokenizer.bin"]
    if not found[0].exists():
        found = sorted(folder.glob("tok*.bin"))
    if len(found) > 1:
        msg = f"{folder}: has {' and '.join(p.name for p in found)}; keep the model's own, as tokenizer.bin"
        raise BadModel(msg)
    return Llama2cTokenizer.read(found[0], spec) if found else None
