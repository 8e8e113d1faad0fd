"""Tests of the JSON output: commands print exactly the keys that their result classes describe."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.helpers import write_config
from wse.cli import main
from wse.cli.reference.json_keys import COMMANDS, VIEWS, WITHOUT_FUNCTION, Key, keys_of
from wse.reports.result import Result

ROOT = Path(__file__).parents[2]
TRACE = str(ROOT / "traces/golden/v1/story.h5")
INSPECT_OPTIONS = {
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
QUICK = ["--mapping", "region", "--schedule", "baseline"]
PLACED = ["--mesh", "6x6", *QUICK]
LENGTHS = ["--prompt-len", "16", "--new-tokens", "8"]
SMALL = ["config.json", *PLACED, *LENGTHS]
RUN = ["run", "--mesh", "16x16", *QUICK, "--trace", "none", "--new-tokens"]
SERVE = ["serve-sim", "story", "--mesh", "16x16", *SMALL[3:], "--objective", "latency", "--requests", "99"]
COMMAND_LINES = {
    "run": [*RUN, "4", "--logits", "--profile"],
    "run with drafts": [*RUN, "40", "--verify-tokens", "2"],
    "run with defects": [*RUN, "3", "--defects", "0.01"],
    "compile": ["compile", "config.json", "--mesh", "6x6", "--mapping", "pipeline", *QUICK[2:]],
    "compile with defects": ["compile", "config.json", *PLACED, "--defects", "0.05"],
    "estimate": ["estimate", "config.json", "--mesh", "6x6", *QUICK[2:], *LENGTHS, "--batch", "2"],
    "estimate with sensitivity": ["estimate", *SMALL, "--sensitivity"],
    "estimate of two wafers with a trace": ["estimate", *SMALL, "--wafers", "2", "--trace", "t.h5"],
    "estimate of a verification pass": ["estimate", *SMALL, "--verify-tokens", "4"],
    "serve-sim": [*SERVE, "--ttft", "1s", "--fast-share", "0.5"],
    "serve-sim with prefixes": [*SERVE, "--prefix-tokens", "8", "--kv-tiers", "host"],
    "serve-sim with its files": [*SERVE, "--prefill", "own", "--timeline", "t.json", "--html", "p.html"],
    "claims": ["claims", "8"],
    "models": ["models"],
    "wafers": ["wafers"],
    "wafers NAME": ["wafers", "wse3"],
    "mappings": ["mappings"],
    "view": ["view", TRACE, "-o", "page.html"],
    "export": ["export", TRACE, "--to", "perfetto", "-o", "timeline.json"],
    "export to a folder": ["export", TRACE, "--to", "csv", "-o", "tables"],
    "estimate with experts": ["estimate", "gpt-oss-20b", "--prompt-len", "16", "--new-tokens", "4", *QUICK],
}
"""Commands by a name that begins with the command. Tests in tests/cli check the keys of further commands."""


RESULTS = COMMANDS | WITHOUT_FUNCTION


def test_every_key_has_a_description_and_seconds_have_a_unit() -> None:
    for command, result in (RESULTS | VIEWS).items():
        keys = list(keys_of(result))
        paths = {key.path for key in keys}
        assert len(paths) == len(keys), command
        for key in keys:
            assert key.doc.text or key.path.rpartition(".")[0].removesuffix("[]") in paths, (command, key.path)
            is_number = bool(set(key.kinds) & {int, float})
            assert "_s" not in key.path[-2:] or key.doc.unit or not is_number, (command, key.path)


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_json_of_commands_has_the_documented_keys(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path)
    assert main([*COMMAND_LINES[name], "--json"]) == 0
    check_keys(json.loads(capsys.readouterr().out), RESULTS[name if name in RESULTS else COMMAND_LINES[name][0]])


@pytest.mark.parametrize("command", INSPECT_OPTIONS)
def test_json_of_inspect_views_has_the_documented_keys(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", TRACE, *INSPECT_OPTIONS[command], "--json"]) == 0
    check_keys(json.loads(capsys.readouterr().out), VIEWS[command])


def check_keys(report: dict[str, Any], result: type[Result]) -> None:
    """Check that a report has only keys of its result class, and all keys of the top level that are not optional."""
    keys = {key.path: key for key in keys_of(result)}
    seen: set[str] = set()
    check_value(report, "", keys, seen)
    assert {path for path, key in keys.items() if not key.optional and "." not in path} <= seen


def check_value(value: Any, path: str, keys: dict[str, Key], seen: set[str]) -> None:
    """Check a value and the values in it against `keys`, and add the paths found to `seen`.

    Args:
        value: Part of a report.
        path: Where the value is, such as "served.all[]".
        keys: Documented keys by path; NAME stands for any name.
        seen: Paths of the keys that occur in the report.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            known = [p for p in (f"{path}.{name}".lstrip("."), f"{path}.NAME") if p in keys]
            assert known, f"{path}.{name} is not in the reference"
            seen.add(known[0])
            assert has_documented_type(inner, keys[known[0]]), (
                f"{known[0]}: {inner!r} is none of {keys[known[0]].kinds}"
            )
            if Any not in keys[known[0]].kinds:
                check_value(inner, known[0], keys, seen)
    elif isinstance(value, list):
        for inner in value:
            check_value(inner, f"{path}[]", keys, seen)


def has_documented_type(value: Any, key: Key) -> bool:
    """Return whether a value has one of the documented types of a key. An int is accepted for a float."""
    return Any in key.kinds or type(value) in key.kinds or (type(value) is int and float in key.kinds)
