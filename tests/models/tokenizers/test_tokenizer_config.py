"""Tests of the files of a tokenizer: which file is used, special tokens, and chat templates."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.helpers import fill_ellipsis, llama2c_bytes, write_config
from wse.errors import BadModel
from wse.models.configs.config import read_config
from wse.models.tokenizers import chat_template
from wse.models.tokenizers.chat_template import TEMPLATE_LIMIT, ChatTemplate
from wse.models.tokenizers.llama2c_tokenizer import Llama2cTokenizer
from wse.models.tokenizers.render_chat import TEXT_LIMIT, answer
from wse.models.tokenizers.tokenizer import load_tokenizer
from wse.models.tokenizers.tokenizer_config import AddedToken, TokenizerConfig, read_tokenizer_config


def write(folder: Path, **values: Any) -> Path:
    """Write a tokenizer_config.json and return its path."""
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(values))
    return path


def test_a_folder_without_the_file_has_the_defaults(tmp_path: Path) -> None:
    assert read_tokenizer_config(tmp_path) == TokenizerConfig()


def test_tokenizer_config_has_all_values_of_the_file(tmp_path: Path) -> None:
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
    ("values", "message"),
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
def test_bad_value_is_named(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    path = write(tmp_path, **values)
    assert refusal(BadModel, read_tokenizer_config, tmp_path).startswith(f"{path}: {fill_ellipsis(values, message)}")


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chat_template.jinja"
    path.write_bytes(b"ab\xff")
    message = f"{path}: byte 2 is not UTF-8; fetch the file again"
    assert refusal(BadModel, read_tokenizer_config, tmp_path) == message


DATA = llama2c_bytes([b"%x" % i for i in range(16)], [0.0] * 16)


def test_a_folder_without_tokenizer_gives_none(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "stories.bin").write_bytes(b"no tokenizer")
    assert load_tokenizer(tmp_path, spec) is None


def test_any_tok_file_is_used_and_tokenizer_bin_first(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "tok512.bin").write_bytes(DATA)
    assert isinstance(load_tokenizer(tmp_path, spec), Llama2cTokenizer)
    (tmp_path / "tok105.bin").write_bytes(b"")
    assert "has tok105.bin and tok512.bin" in refusal(BadModel, load_tokenizer, tmp_path, spec)
    (tmp_path / "tokenizer.bin").write_bytes(DATA)
    assert isinstance(load_tokenizer(tmp_path, spec), Llama2cTokenizer)


def test_tokenizer_json_is_used_before_all_others(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path))
    (tmp_path / "tokenizer.bin").write_bytes(DATA)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: not a tokenizer" in refusal(BadModel, load_tokenizer, tmp_path, spec)


CHAT_TEMPLATE_DATA = Path(__file__).parents[2] / "data" / "text" / "chats.json"
CASES: list[dict[str, Any]] = json.loads(CHAT_TEMPLATE_DATA.read_text(encoding="utf-8"))
TURN = [{"role": "user", "content": "hi"}]


def template(source: str, **marks: str) -> ChatTemplate:
    """Return a chat template with special tokens by name."""
    return ChatTemplate(source=source, origin="folder", marks=tuple(marks.items()))


def rendered_here(source: str) -> dict[str, str]:
    """Return the answer of the renderer, which runs in this process instead of one of its own."""
    return answer({"template": source, "messages": TURN, "marks": {}})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['style']}-{len(case['messages'])}")
def test_rendered_text_is_that_of_transformers(case: dict[str, Any]) -> None:
    found = answer({"template": case["source"], "messages": case["messages"], "marks": case["marks"]})
    if case["text"] is None:
        assert found == {"kind": "refused", "error": "System role not supported"}
    else:
        assert found == {"text": case["text"]}


AGAIN = "fetch the file again, or leave --chat out"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{% if %}", "line 1: Expected an expression, got 'end of statement block'"),
        ("{{ messages.missing.more }}", "'list object' has no attribute 'missing'"),
        ("{% include 'other' %}", "no loader for this environment specified"),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe."),
        ("{% set ns = namespace() %}{% set ns._a = 1 %}", "a namespace has no '_a'"),
        ("{{ messages.append(1) }}", "access to attribute 'append' of 'list' object is unsafe."),
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big."),
        ("{{ 'a' * 20000000 }}", f"it writes more than {TEXT_LIMIT:,} characters"),
    ],
)
def test_a_template_that_fails_is_broken(source: str, problem: str) -> None:
    found = rendered_here(source)
    assert found["kind"] == "broken"
    assert found["error"].startswith(problem)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ 1 / 0 }}", "fails: division by zero"),
        ("{{ 'a' * 10 ** 11 }}", "fails: it needs more than 1,073,741,824 bytes of memory"),
        ("x" * (TEMPLATE_LIMIT + 1), f"has {TEMPLATE_LIMIT + 1:,} characters, over {TEMPLATE_LIMIT:,}"),
    ],
    ids=lambda value: value[:40],
)
def test_a_template_that_cannot_be_used_is_refused(source: str, problem: str) -> None:
    message = refusal(BadModel, template(source).render, TURN)
    assert message.startswith(f"folder: the chat template {problem}"), message
    assert message.endswith(AGAIN)


@pytest.mark.slow
def test_endless_template_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = template(
        "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i * j %}{% endfor %}{% endfor %}"
    )
    monkeypatch.setattr(chat_template, "WALL_S", 0.5)
    message = f"folder: the chat template fails: it takes more than 0.5 s; {AGAIN}"
    assert refusal(BadModel, endless.render, TURN) == message
    monkeypatch.setattr(chat_template, "WALL_S", 60)
    message = f"folder: the chat template fails: it needs too much time or memory; {AGAIN}"
    assert refusal(BadModel, endless.render, TURN) == message


def test_template_cannot_reach_names_of_the_interpreter() -> None:
    for name in ("open", "eval", "exec", "__import__", "globals", "self.__init__.__globals__", "cycler.__init__"):
        found = rendered_here(f"{{{{ {name} }}}}")
        assert found.get("text", "") == "" or found.get("kind") == "broken", (name, found)
