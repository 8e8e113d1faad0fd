"""Several prompts on one command line, or in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse, files_below
from wse.studies.run import prompts
from wse_traces.reader.read import open_trace

IDS = ("1,2,3", "4", "9,8,7,6,5")
MESH = ("--mesh", "3x3", "--new-tokens", "7", "--schedule", "baseline", "--json")


def report_of(wse: Wse, *arguments: object) -> dict[str, Any]:
    outcome = wse("run", *arguments)
    assert outcome.code == 0, outcome
    return dict(json.loads(outcome.out))


def each(option: str, values: tuple[str, ...]) -> list[str]:
    return [word for value in values for word in (option, value)]


@pytest.mark.parametrize(
    "options", slow_but([(), ("--wafers", "2"), ("--temperature", "1.5")], ("--wafers", "2")), ids=str
)
def test_each_user_gets_what_they_get_alone(wse: Wse, tiny: Path, options: tuple[str, ...]) -> None:
    report = report_of(wse, tiny, *each("--prompt-ids", IDS), *MESH, *options, "--seed", 3, "--trace", "none")
    assert report["batch"] == 3
    assert not {"tokens", "text", "prompt_tokens", "prompt_logits_last"} & set(report)
    for user, ids in enumerate(IDS):
        alone = report_of(wse, tiny, "--prompt-ids", ids, *MESH, *options, "--seed", 3, "--trace", "none")
        assert alone["batch"] == 1
        assert alone["users"][0]["tokens"] == alone["tokens"]
        assert report["users"][user] == alone["users"][0]
    decode = report["decode"]
    assert decode["tokens_per_s"] == pytest.approx(3 * decode["tokens_per_s_per_user"])


def test_file_holds_lines_or_a_list(wse: Wse, empty: Path) -> None:
    texts = ["Once upon a time", "Tim had a", "A dog, é"]
    (empty / "texts").write_bytes("\r\n".join(texts).encode() + b"\n")
    (empty / "texts.json").write_text(json.dumps(texts))
    options = ("--new-tokens", "3", "--schedule", "baseline", "--json", "--trace", "none")
    from_lines, from_list = (report_of(wse, "--prompts", name, *options)["users"] for name in ("texts", "texts.json"))
    assert from_lines == from_list == report_of(wse, *each("--prompt", tuple(texts)), *options)["users"]
    assert [user["text"].startswith(text) for user, text in zip(from_list, texts, strict=True)] == [True] * 3


def test_trace_tells_whose_token_it_is(wse: Wse, tiny: Path, empty: Path) -> None:
    report = report_of(wse, tiny, *each("--prompt-ids", IDS), *MESH, "--wavelets", "--trace", "t.h5")
    with open_trace(empty / "t.h5") as trace:
        found = {name: trace.column(f"tokens/{name}") for name in ("id", "is_prompt", "sequence", "position", "cycles")}
        passes = trace.rows("pass")
    for user, ids in enumerate(IDS):
        mine = found["sequence"] == user
        made = report["users"][user]["tokens"]
        assert found["id"][mine].tolist() == [*map(int, ids.split(",")), *made]
        assert found["position"][mine].tolist() == list(range(mine.sum()))
    clock = report["prefill"]["cycles"] + report["decode"]["cycles_per_token"] * (passes - report_chunks(report))
    longest = max(range(len(IDS)), key=lambda user: len(report["users"][user]["tokens"]))
    assert found["cycles"][found["sequence"] == longest].sum() == pytest.approx(clock)
    facts = json.loads(wse("inspect", "t.h5", "--json").out)
    assert [user["generated_tokens"] for user in facts["users"]] == [len(user["tokens"]) for user in report["users"]]
    assert [user["prompt_tokens"] for user in facts["users"]] == [3, 1, 5]
    assert facts["decode"]["tokens_per_s"] == pytest.approx(report["decode"]["tokens_per_s"])
    assert facts["wavelets"]["moves"] > 0


def report_chunks(report: dict[str, Any]) -> int:
    return len(report["system"]["prefill_chunks"])


def test_more_users_than_fit_are_told_how_many_do(wse: Wse, tiny: Path) -> None:
    one_pe = ("--mesh", "1x1", "--wafers", "1", "--context", "30", "--trace", "none")
    line = wse("run", tiny, *each("--prompt-ids", ("1,2,3",) * 40), *one_pe).refusal()
    assert "KV cache" in line
    most = int(line.partition("at most ")[2].partition(" prompts")[0])
    assert 1 < most < 40
    assert wse("run", tiny, *each("--prompt-ids", ("1,2,3",) * most), *one_pe).code == 0


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("none", None, ["does not exist"]),
        ("empty", b"", ["contains no prompt", "one per line"]),
        ("gap", b"one\n\ntwo\n", ["line 2 is empty"]),
        ("latin", b"caf\xe9\n", ["byte 3 is not UTF-8"]),
        ("a.json", b"[", ["not JSON at line 1, column 2"]),
        ("b.json", b"[" * 100_000, ["not a JSON list of texts"]),
        ("c.json", b'{"a": 1}', ["contains a JSON dict, not a list of texts"]),
        ("d.json", b'["a", 2]', ["item 2 is a int, not a text"]),
        ("e.json", b"[]", ["contains no prompt"]),
        ("f.json", b'["a", " "]', ["item 2 is empty"]),
        ("many", b"a\n" * 5000, ["contains 5,000 prompts", "at most 4,096"]),
    ],
)
def test_file_that_cannot_be_used(wse: Wse, empty: Path, name: str, content: bytes | None, expected: list[str]) -> None:
    if content is not None:
        (empty / name).write_bytes(content)
    before = files_below(empty)
    line = wse("run", "--prompts", name).refusal()
    assert line.startswith(f"wse: --prompts {name}: ")
    assert [part for part in expected if part not in line] == []
    assert files_below(empty) == before


def test_folder_and_a_file_that_is_too_large(wse: Wse, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not a regular file" in wse("run", "--prompts", empty).refusal()
    monkeypatch.setattr(prompts, "LARGEST_BYTES", 4)
    (empty / "large").write_text("12345")
    assert "is over 4 bytes" in wse("run", "--prompts", "large").refusal()


def test_logits_are_those_of_each_user(wse: Wse, tiny: Path) -> None:
    report = report_of(wse, tiny, *each("--prompt-ids", IDS), *MESH, "--logits", "--trace", "none")
    for user, ids in zip(report["users"], IDS, strict=True):
        alone = report_of(wse, tiny, "--prompt-ids", ids, *MESH, "--logits", "--trace", "none")
        assert user["prompt_logits_last"] == pytest.approx(alone["prompt_logits_last"], rel=1e-4, abs=1e-5)
