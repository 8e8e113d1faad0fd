"""Tests of the help of commands: its examples run, its lines fit 80 columns, and shell completion works."""

import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse, without_options
from tests.cli.test_process import ENVIRONMENT, WSE
from tests.traces.conftest import HEADER, moves
from wse.cli.app import COMMANDS
from wse_traces import TraceWriter

GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
BASELINE = ["--schedule", "baseline"]
QUICKER = {
    "run": ["--new-tokens", "3", *BASELINE],
    "compile": BASELINE,
    "estimate": BASELINE,
    "serve-sim": ["--requests", "99", "--objective", "latency", *BASELINE],
}
"""Options that make examples faster: no search for rewrites or layouts with more users, fewer tokens and requests."""
LARGE = re.compile(r"\b(llama-3-8b|llama-3\.1-70b|smollm2-135m)(?= |$)")
"""Models of full size in examples; the test replaces them by a small model on a small mesh."""
SHOWN = {
    "run": (4, "Placement"),
    "compile": (1, "Placement"),
    "estimate": (3, "s/user"),
    "serve-sim": (4, "Latency"),
    "view": (3, ".html: "),
    "models": (1, "story"),
    "wafers": (1, "wse2"),
    "mappings": (1, "region"),
    "inspect": (11, ""),
    "export": (6, "written"),
    "pattern": (4, "bound"),
}
"""Minimum number of examples of each command, and a text that each of them prints."""


@pytest.mark.parametrize("command", slow_but(SHOWN, "view", "models", "wafers", "mappings"))
def test_examples_of_the_help_run(wse: Wse, empty: Path, command: str) -> None:
    for name in ("wse-run", "before", "after", "other"):
        shutil.copy(GOLDEN / "story.h5", empty / f"{name}.h5")
    with TraceWriter(empty / "wavelets.h5", HEADER) as trace:
        trace.append("wavelet", moves(100) | {"wafer": [0, 0, 0]})
        trace.append("wavelet_source", {"source": [4, 3, 3]})
        trace.write_summary({})
    examples = re.findall(rf"^ {{4}}wse ({command}.*)$", wse(command, "--help").out, re.MULTILINE)
    min_examples, shown = SHOWN[command]
    assert len(examples) >= min_examples
    for example in examples:
        if "750" in example or ("parquet" in example and importlib.util.find_spec("pyarrow") is None):
            continue
        if "--gpu" not in example:
            example = quicker(command, example)
        outcome = wse(*shlex.split(example))
        assert outcome.code == 0, (example, outcome.err)
        assert shown in outcome.out


def quicker(command: str, example: str) -> str:
    """Return an example changed to a small model, a small mesh and fewer tokens or requests."""
    if command in QUICKER:
        options = shlex.join(QUICKER[command])
        example = f"{without_options(LARGE.sub('story', example), options)} {options}"
        example += "" if "--mesh" in example else " --mesh 24x24"
        example += "" if "--mapping" in example else " --mapping region"
    return example


def test_summary_of_each_command_is_not_cut_off(wse: Wse) -> None:
    listed = re.findall(r"^ {2}([\w-]+) +(.*)$", wse("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert [name for name, _ in listed[: len(COMMANDS)]] == list(COMMANDS)
    assert all(summary.endswith(".") and "..." not in summary for _, summary in listed[: len(COMMANDS)])


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_short_help_option_prints_help_of_80_columns(wse: Wse, command: str) -> None:
    words = [command] if command else []
    text = wse(*words, "-h").out
    assert text == wse(*words, "--help").out
    too_long = [line for line in text.split("\n") if len(line) > 80 and not line.startswith("    wse ")]
    assert not too_long


def test_short_help_option_works_after_an_unknown_option(wse: Wse) -> None:
    wse("models", "--no-such-option").refusal()
    assert wse("cache", "-h").out == wse("cache", "--help").out != ""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wse es", "estimate"),
        ("wse run --wafer ws", "wse2\nwse3"),
        ("wse estimate llama-3-8", "llama-3-8b"),
    ],
)
def test_shell_completion_offers_names(tmp_path: Path, line: str, offered: str) -> None:
    variables = {"_WSE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(WSE, env=ENVIRONMENT | variables, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == offered
