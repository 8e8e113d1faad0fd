from __future__ import annotations

from pathlib import Path

from tests.hardware.helpers import refusal
from tests.models.helpers import llama2c_bytes, write_config
from wse.errors import BadModel
from wse.models.configs.config import read_config
from wse.models.tokenizers.llama2c_tokenizer import Llama2cTokenizer
from wse.models.tokenizers.tokenizer import load_tokenizer

DATA = llama2c_bytes([b"%x" % i for i in range(16)], [0.0] * 16)


def test_a_folder_without_tokenizer_gives_none(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "stories.bin").write_bytes(b"no tokenizer")
    assert load_tokenizer(tmp_path, spec) is None


def test_any_tok_file_is_taken_and_tokenizer_bin_first(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "tok512.bin").write_bytes(DATA)
    assert isinstance(load_tokenizer(tmp_path, spec), Llama2cTokenizer)
    (tmp_path / "tok105.bin").write_bytes(b"")
    assert "has tok105.bin and tok512.bin" in refusal(BadModel, load_tokenizer, tmp_path, spec)
    (tmp_path / "tokenizer.bin").write_bytes(DATA)
    assert isinstance(load_tokenizer(tmp_path, spec), Llama2cTokenizer)


def test_tokenizer_json_comes_before_all(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "tokenizer.bin").write_bytes(DATA)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: not a tokenizer" in refusal(BadModel, load_tokenizer, tmp_path, spec)
