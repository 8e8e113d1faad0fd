"""What the commands print with ``--json`` has the keys that the result classes describe."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiers import slow_but

from wse.cli import main
from wse.cli.reference.json_keys import COMMANDS, VIEWS, WITHOUT_FUNCTION, Key, keys_of
from wse.reports.result import Result

ROOT = Path(__file__).parents[2]
TRACE = str(ROOT / "traces/golden/v1/story.h5")
VIEWED = {
    "inspect": [],
    "inspect --steps": ["--steps"],
    "inspect --by": ["--by", "cause"],
    "inspect --tree": ["--tree"],
    "inspect --links": ["--links"],
    "inspect --pe": ["--pe", "0,3"],
    "inspect --tokens": ["--tokens"],
    "inspect --diff": ["--diff", TRACE.replace("story.h5", "story-two-wafers.h5")],
    "inspect --check": ["--check"],
}
BASELINE = ["--schedule", "baseline"]
STORY = ["--mesh", "24x24", "--mapping", "region", "--prompt-len", "16", "--new-tokens", "8"]
SERVE = ["serve-sim", "story", *STORY, *BASELINE, "--requests", "99"]
PRINTED = {
    "run": ["run", "--new-tokens", "4", "--logits", "--profile", "--trace", "none"],
    "run of two users, by wavelets": ["run", "--new-tokens", "3", "--prompt", "One", "--prompt", "Two", "--wavelets"],
    "run of drafts": ["run", "--new-tokens", "40", "--verify-tokens", "2", "--trace", "none", *BASELINE],
    "run among defects": ["run", "--mesh", "12x12", "--defects", "0.01", "--new-tokens", "3", "--trace", "none"],
    "compile": ["compile", "story", "--mapping", "pipeline", "--mesh", "12x12", *BASELINE],
    "compile among defects": ["compile", "story", "--mesh", "16x16", "--defects", "0.01"],
    "estimate": ["estimate", "story", *STORY, *BASELINE, "--mapping", "auto", "--batch", "2"],
    "estimate of what moves it": ["estimate", "story", *STORY, *BASELINE, "--sensitivity"],
    "estimate of wafers, traced": ["estimate", "story", *STORY, *BASELINE, "--wafers", "2", "--trace", "t.h5"],
    "estimate of a pass": ["estimate", "story", *STORY, "--verify-tokens", "4"],
    "estimate of one token": ["estimate", "story", "--mesh", "24x24", "--prompt-len", "16", "--new-tokens", "1"],
    "compare": ["compare", "story", *STORY, *BASELINE, "--wafers", "1,2", "--mapping", "pipeline"],
    "serve-sim": [*SERVE, "--ttft", "1s", "--fast-share", "0.5"],
    "serve-sim of prefixes": [*SERVE, "--prefix-tokens", "8", "--kv-tiers", "host"],
    "serve-sim with its files": [*SERVE, "--prefill", "own", "--timeline", "t.json", "--html", "p.html"],
    "sweep": ["sweep", "story", "--set", "mesh=24x24", "--set", "prompt_len=16", "--set", "new_tokens=8"],
    "models": ["models"],
    "wafers": ["wafers"],
    "wafers NAME": ["wafers", "wse3"],
    "mappings": ["mappings"],
    "view": ["view", TRACE, "-o", "page.html"],
    "export": ["export", TRACE, "--to", "perfetto", "-o", "timeline.json"],
    "export to a folder": ["export", TRACE, "--to", "csv", "-o", "tables"],
    "estimate with experts": [
        "estimate",
        "gpt-oss-20b",
        "--mapping",
        "region",
        "--prompt-len",
        "16",
        "--new-tokens",
        "4",
        *BASELINE,
    ],
}


PRINTING = COMMANDS | WITHOUT_FUNCTION
SECOND_LOOKS = {
    "run among defects",
    "run of drafts",
    "run of two users, by wavelets",
    "compile among defects",
    "estimate of what moves it",
    "estimate of wafers, traced",
    "estimate of a pass",
    "estimate of one token",
    "sweep",
    "compare",
}


@pytest.mark.parametrize("command", PRINTING | VIEWS)
def test_every_key_is_described(command: str) -> None:
    keys = list(keys_of((PRINTING | VIEWS)[command]))
    assert len({key.path for key in keys}) == len(keys)
    for key in keys:
        assert key.doc.text or key.path.rpartition(".")[0].removesuffix("[]") in {other.path for other in keys}, (
            key.path
        )
        assert "_s" not in key.path[-2:] or key.doc.unit or not set(key.kinds) & {int, float}, key.path


@pytest.mark.parametrize("name", slow_but(PRINTED, *PRINTED.keys() - SECOND_LOOKS))
def test_what_is_printed_is_in_the_reference(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*PRINTED[name], "--json"]) == 0
    hold(json.loads(capsys.readouterr().out), PRINTING[name if name in PRINTING else PRINTED[name][0]])


@pytest.mark.parametrize("command", VIEWED)
def test_what_is_shown_of_a_trace_is_in_the_reference(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", TRACE, *VIEWED[command], "--json"]) == 0
    hold(json.loads(capsys.readouterr().out), VIEWS[command])


def hold(report: dict[str, Any], result: type[Result]) -> None:
    """Hold what was printed to the keys of a result class: none is unknown, and none is missing at the top."""
    keys = {key.path: key for key in keys_of(result)}
    seen: set[str] = set()
    walk(report, "", keys, seen)
    assert {path for path, key in keys.items() if not key.optional and "." not in path} <= seen


def walk(value: Any, path: str, keys: dict[str, Key], seen: set[str]) -> None:
    """Hold a value and all that is in it to the keys of the reference, each under its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            known = [p for p in (f"{path}.{name}".lstrip("."), f"{path}.NAME") if p in keys]
            assert known, f"{path}.{name} is not in the reference"
            seen.add(known[0])
            assert of_kind(inner, keys[known[0]]), f"{known[0]}: {inner!r} is none of {keys[known[0]].kinds}"
            if Any not in keys[known[0]].kinds:
                walk(inner, known[0], keys, seen)
    elif isinstance(value, list):
        for inner in value:
            walk(inner, f"{path}[]", keys, seen)


def of_kind(value: Any, key: Key) -> bool:
    """Whether a value is of one of a key's kinds; a whole number is a number too."""
    return Any in key.kinds or type(value) in key.kinds or (type(value) is int and float in key.kinds)
