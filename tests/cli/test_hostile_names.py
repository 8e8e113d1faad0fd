"""Whatever stands in a name or a path, an error stays one line, and a summary moves no cursor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Wse
from tests.models.helpers import write_model

CONTROLS = "\n\r\t\x1b[2J\x07\x08\x7f\x85\u2028\u2029\u202e\u200b\ufeff"
HOSTILE = st.text(st.sampled_from(CONTROLS + "a-é/.:'\"[]{}%\\ \udcff\U0001f600"), max_size=40)
QUICK = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(text=HOSTILE)
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "{}x"],
        ["run", "TINY", "--wafer", "{}"],
        ["run", "TINY", "--mapping", "{}"],
        ["run", "TINY", "--mesh", "{}"],
        ["run", "TINY", "--dtype", "{}"],
        ["run", "TINY", "--wafers", "{}"],
        ["run", "TINY", "--prompt-ids", "{}"],
        ["run", "TINY", "--seed", "{}"],
        ["run", "TINY", "--prompt-ids", "1", "--trace", "no/{}/x"],
        ["run", "TINY", "--x{}"],
        ["{}x"],
        ["inspect", "{}"],
        ["export", "{}", "--to", "csv"],
        ["export", "no.h5", "--to", "{}"],
        ["export", "no.h5", "--to", "csv", "--what", "{}"],
        ["view", "{}"],
        ["view", "{}.h5"],
    ],
    ids=lambda a: " ".join(a),
)
def test_error_is_one_line(wse: Wse, tiny: Path, arguments: list[str], text: str) -> None:
    assume(not is_number_list(text))  # which some options take
    wse(*(str(tiny) if a == "TINY" else a.replace("{}", text) for a in arguments)).refusal()


def is_number_list(text: str) -> bool:
    """Whether ``--seed``, ``--wafers`` or ``--prompt-ids`` would take it."""
    try:
        return all(int(part) >= 0 for part in text.split(","))
    except ValueError:
        return text == "auto"


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a\nb", marks=pytest.mark.smoke),
        "\x1b[31mred\x1b[0m",
        "\udcff\udcfe",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("[bold]x", "x" * 200, "-r", "é\u202e")),
    ],
)
def test_model_of_any_name_runs_and_is_inspected(wse: Wse, tmp_path: Path, name: str) -> None:
    file = name[:20].replace("/", "")
    folder = tmp_path / "in" / name
    folder.mkdir(parents=True)
    write_model(folder)
    line = wse("run", folder, "--prompt-ids", "99").refusal()
    assert "outside the vocabulary" in line
    ran = wse(
        "run", folder, "--prompt-ids", "1", "--new-tokens", "2", "--schedule", "baseline", "--trace", f"{file}.h5"
    )
    assert ran.code == 0, ran.err
    seen = wse("inspect", f"./{file}.h5")
    assert seen.code == 0, seen.err
    for out in (ran.out, seen.out):
        assert all(line.isprintable() for line in out.split("\n")), out
    if name.startswith("["):
        assert name in ran.out
