"""tokenizer_config.json and chat_template.jinja: what is read, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import about
from wse.errors import BadModel
from wse.models.tokenizers.tokenizer_config import AddedToken, TokenizerConfig, read_tokenizer_config


def write(folder: Path, **values: Any) -> Path:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(values))
    return path


def test_a_folder_without_the_file_has_the_defaults(tmp_path: Path) -> None:
    assert read_tokenizer_config(tmp_path) == TokenizerConfig()


def test_all_that_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        tokenizer_class="LlamaTokenizerFast",
        bos_token={"content": "<s>", "lstrip": False},
        eos_token="</s>",
        pad_token=None,
        additional_special_tokens=["<a>", {"content": "<b>"}],
        added_tokens_decoder={"7": {"content": "<c>", "special": False, "rstrip": True}, "3": {"content": "<d>"}},
        add_bos_token=True,
        add_prefix_space=None,
        legacy=True,
        model_max_length=1e30,
        chat_template=[{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}],
    )
    assert read_tokenizer_config(tmp_path) == TokenizerConfig(
        tokenizer_class="LlamaTokenizer",
        marks=(("bos_token", "<s>"), ("eos_token", "</s>")),
        added_tokens=(
            AddedToken(text="<d>", token_id=3, special=False),
            AddedToken(text="<c>", token_id=7, special=False, rstrip=True),
            AddedToken(text="<a>"),
            AddedToken(text="<b>"),
        ),
        add_bos_token=True,
        legacy=True,
        chat_template="d",
    )


def test_a_template_file_comes_before_the_one_in_the_config(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("file")
    assert read_tokenizer_config(tmp_path).chat_template == "file"
    path = write(tmp_path, chat_template="config")
    assert read_tokenizer_config(tmp_path).chat_template == "file"
    (tmp_path / "chat_template.jinja").unlink()
    assert read_tokenizer_config(path.parent).chat_template == "config"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bos_token": 1}, "…: give a string, or an object with content"),
        ({"add_bos_token": "yes"}, "…: give true or false"),
        ({"added_tokens_decoder": [1]}, "…: give an object of tokens by id"),
        ({"added_tokens_decoder": {"x": {}}}, "added_tokens_decoder.x = {}: give objects by token id"),
        ({"added_tokens_decoder": {"1": {"content": "a", "lstrip": 1}}}, "added_tokens_decoder.1.lstrip = 1"),
        ({"chat_template": 5}, "…: give a string, or a list of objects with name and template"),
        ({"chat_template": [{"name": "a", "template": "b"}]}, "chat_template = ['a']: no template among these is"),
    ],
)
def test_a_value_that_cannot_be_is_named(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    path = write(tmp_path, **values)
    assert refusal(BadModel, read_tokenizer_config, tmp_path).startswith(f"{path}: {about(values, says)}")


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(b"ab\xff")
    says = f"{path}: byte 2 is not UTF-8; fetch the file again"
    assert refusal(BadModel, read_tokenizer_config, tmp_path) == says
