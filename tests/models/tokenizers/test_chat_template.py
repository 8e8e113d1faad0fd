"""Chat templates: text as transformers renders it, and templates that are hostile, broken or refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from wse.errors import BadModel
from wse.models.tokenizers import chat_template
from wse.models.tokenizers.chat_template import TEMPLATE_LIMIT, ChatTemplate
from wse.models.tokenizers.render_chat import TEXT_LIMIT, answer

DATA = Path(__file__).parents[2] / "data" / "text" / "chats.json"
CASES: list[dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
TURN = [{"role": "user", "content": "hi"}]


def template(source: str, **marks: str) -> ChatTemplate:
    return ChatTemplate(source=source, origin="folder", marks=tuple(marks.items()))


def asked(source: str) -> dict[str, str]:
    """The renderer's answer, without a process of its own."""
    return answer({"template": source, "messages": TURN, "marks": {}})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['style']}-{len(case['messages'])}")
def test_the_text_is_that_of_transformers(case: dict[str, Any]) -> None:
    found = answer({"template": case["source"], "messages": case["messages"], "marks": case["marks"]})
    if case["text"] is None:
        assert found == {"kind": "refused", "error": "System role not supported"}
    else:
        assert found == {"text": case["text"]}


AGAIN = "fetch the file again, or leave --chat out"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{% if %}", "fails: line 1: Expected an expression, got 'end of statement block'"),
        ("{% nonsense %}", "fails: line 1: Encountered unknown tag 'nonsense'."),
        ("{{ messages.missing.more }}", "fails: 'list object' has no attribute 'missing'"),
        ("{{ 1 / 0 }}", "fails: division by zero"),
        ("{% include 'other' %}", "fails: no loader for this environment specified"),
        ("{{ ''.__class__.__mro__ }}", "fails: access to attribute '__class__' of 'str' object is unsafe."),
        ("{% set ns = namespace() %}{% set ns._a = 1 %}", "fails: a namespace has no '_a'"),
        ("{{ messages.append(1) }}", "fails: access to attribute 'append' of 'list' object is unsafe."),
        ("{% for i in range(10**9) %}{% endfor %}", "fails: Range too big."),
        ("{{ 'a' * 20000000 }}", f"fails: it writes more than {TEXT_LIMIT:,} characters"),
        ("{{ 'a' * 10 ** 11 }}", "fails: it needs more than 1,073,741,824 bytes of memory"),
        ("x" * (TEMPLATE_LIMIT + 1), f"has {TEMPLATE_LIMIT + 1:,} characters, over {TEMPLATE_LIMIT:,}"),
    ],
    ids=lambda value: value[:40],
)
def test_a_template_that_cannot_be_used_is_refused(source: str, says: str) -> None:
    message = refusal(BadModel, template(source).render, TURN)
    assert message.startswith(f"folder: the chat template {says}"), message
    assert message.endswith(AGAIN)


@pytest.mark.slow
def test_a_template_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = template(
        "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i * j %}{% endfor %}{% endfor %}"
    )
    monkeypatch.setattr(chat_template, "WALL_S", 1)
    says = f"folder: the chat template fails: it takes more than 1 s; {AGAIN}"
    assert refusal(BadModel, endless.render, TURN) == says
    monkeypatch.setattr(chat_template, "WALL_S", 60)
    says = f"folder: the chat template fails: it needs too much time or memory; {AGAIN}"
    assert refusal(BadModel, endless.render, TURN) == says


def test_no_name_of_the_interpreter_is_in_reach() -> None:
    for name in ("open", "eval", "exec", "__import__", "globals", "self.__init__.__globals__", "cycler.__init__"):
        found = asked(f"{{{{ {name} }}}}")
        assert found.get("text", "") == "" or found.get("kind") == "broken", (name, found)
