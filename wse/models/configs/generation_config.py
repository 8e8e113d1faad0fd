"""generation_config.json: the tokens that end an answer, beside the config's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from wse.models.configs.config_reader import ConfigReader
from wse.models.configs.json_file import read_object

FILE_LIMIT_BYTES: Final = 2**20


def generation_end_ids(folder: Path, vocab_size: int) -> tuple[int, ...]:
    """``eos_token_id`` of the file in a model folder; none without it.

    Raises:
        BadModel: the file is damaged, or an id is outside the vocabulary.
    """
    path = folder / "generation_config.json"
    if not path.exists():
        return ()
    return ConfigReader(path, read_object(path, FILE_LIMIT_BYTES)).ids("eos_token_id", vocab_size)
