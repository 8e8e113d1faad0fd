"""The log of wavelets in a trace, and traces with impossible values."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from placements import ONE_REGION

from tests.inspect.runs import TracedRun, inspect, traced_run
from tests.traces.conftest import HEADER, write
from wse.cli import main
from wse.errors import BadInput
from wse.tracing.query.places import wavelets
from wse_traces import TraceWriter
from wse_traces.schema import MOVES

COLUMNS = ("cycle", "wafer", "row", "col", "direction", "colour", "step")
Move = tuple[int, ...]
Logged = tuple[TracedRun, list[Move]]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """A run on two wafers with its last pass logged, and the moves as they are stored in the file."""
    placed = ONE_REGION | {"wafers": 2, "mesh": "3x3"}
    folder = tmp_path_factory.mktemp("logged")
    run = traced_run(folder, wavelets=True, prompt_ids=(1, 2, 3), new_tokens=3, **placed)
    with h5py.File(run.path) as file:
        columns = [file[f"wavelets/{name}"][()].tolist() for name in COLUMNS]
    return run, list(zip(*columns, strict=True))


def append(path: Path, moves: list[Move], *, pass_index: int = 0) -> None:
    """A trace with nothing but a log."""
    with TraceWriter(path, HEADER) as writer:
        columns = dict(zip(COLUMNS, np.array(moves, int).T, strict=True))
        writer.append("wavelet", {**columns, "pass": np.full(len(moves), pass_index)})


def values(replayed: list[dict[str, Any]]) -> list[Move]:
    """The moves of a report as the log has them."""
    return [tuple({**move, "direction": MOVES.index(move["direction"])}[name] for name in COLUMNS) for move in replayed]


def test_summary_is_that_of_the_moves(logged: Logged) -> None:
    (_, report, path), moves = logged
    found = inspect(path)["wavelets"]
    assert "replayed" not in found
    assert (found["pass"], found["phase"], found["passes"]) == (2, "decode", [2])
    assert found["moves"] == report["wavelets"]["moves"] == len(moves)
    assert found["wavelet_hops"] == report["wavelets"]["wavelet_hops"]
    cycles = {cycle for cycle, *_ in moves}
    assert (found["first_cycle"], found["last_cycle"]) == (min(cycles), max(cycles))
    assert found["moving_cycles"] == len(cycles)
    assert found["moving_fraction"] == pytest.approx(len(cycles) / (max(cycles) - min(cycles) + 1))
    links = Counter(move[1:5] for move in moves if MOVES[move[4]] != "ramp")
    link = found["busiest_link"]
    at = link["wafer"], link["row"], link["col"], MOVES.index(link["direction"])
    assert link["words"] == links[at] == max(links.values())
    routers = Counter(move[1:4] for move in moves)
    pe = found["busiest_pe"]
    assert pe["words"] == routers[pe["wafer"], pe["row"], pe["col"]] == max(routers.values())


def test_words_that_only_enter_their_pe_load_no_link(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    append(path, [(7, 1, 2, 3, 4, 0, 0)])
    found = inspect(path)["wavelets"]
    assert "busiest_link" not in found
    assert found["wavelet_hops"] == 0
    assert found["busiest_pe"] == {"wafer": 1, "row": 2, "col": 3, "words": 1}
    assert found["moving_fraction"] == 1
    assert main(["inspect", str(path)]) == 0


def test_more_than_can_be_replayed_at_once_is_refused(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, _, path), moves = logged
    monkeypatch.setattr(wavelets, "MAX_MOVES", len(moves))
    assert len(inspect(path, cycles="0-999999")["wavelets"]["replayed"]) == len(moves)
    monkeypatch.setattr(wavelets, "MAX_MOVES", len(moves) - 1)
    says = rf"--cycles 0-999999: {len(moves):,} moves, at most {len(moves) - 1:,} are replayed at once; give fewer"
    with pytest.raises(BadInput, match=says):
        inspect(path, cycles="0-999999")


@pytest.mark.parametrize(
    ("name", "value"),
    [("wafer", 2), ("row", -1), ("col", 5), ("direction", 9), ("colour", 99), ("step", -(2**40)), ("pass", 10**6)],
)
def test_damaged_log_is_shown_or_refused_in_one_line(
    tmp_path: Path, name: str, value: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "odd.h5")
    with h5py.File(path, "r+") as file:
        file[f"wavelets/{name}"][...] = value
    code = main(["inspect", str(path), "--cycles", "0-9"])
    err = capsys.readouterr().err
    if name in ("wafer", "row", "col", "direction"):
        assert (code, err.count("\n")) == (2, 1)
        assert f"wavelets/{name}: {value}, needed: 0 to " in err
    else:
        assert (code, err) == (0, "")


@pytest.mark.parametrize("cycles", [(-(2**62), 2**62), (-5, -5)])
def test_cycles_of_any_size_are_no_reason_to_break(
    tmp_path: Path, cycles: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.h5"
    append(path, [(cycle, 0, 0, 0, 1, 0, 0) for cycle in cycles])
    assert main(["inspect", str(path)]) == 0
    assert "Wavelets" in capsys.readouterr().out


def test_of_several_passes_the_last_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with TraceWriter(path, HEADER) as writer:
        for index, cycle in ((4, 11), (2, 5)):
            rest = {name: [0] for name in COLUMNS if name != "cycle"}
            writer.append("wavelet", {**rest, "cycle": [cycle], "pass": [index]})
    found = inspect(path, cycles="0-20")["wavelets"]
    assert (found["pass"], found["passes"]) == (4, [2, 4])
    assert [move["cycle"] for move in found["replayed"]] == [11]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("good") / "t.h5")


@pytest.mark.parametrize("path", ["schedules/first_step", "schedules/steps"])
def test_schedule_of_steps_that_are_not_there_is_a_problem(good: Path, tmp_path: Path, path: str) -> None:
    shutil.copy(good, tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        file[path][1] = 2**63 - 1
    problems = inspect(tmp_path / "t.h5", check=True)["problems"]
    assert any(problem.startswith("schedules/first_step[1]: ") for problem in problems)
