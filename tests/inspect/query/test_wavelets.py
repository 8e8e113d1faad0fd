"""Tests of queries on the wavelet log of a trace, also with impossible values."""

import shutil
from collections import Counter
from pathlib import Path

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
    """Run the tiny model on two wafers with its last pass logged; return the run and the moves stored in the file."""
    placement = ONE_REGION | {"wafers": 2, "mesh": "3x3"}
    folder = tmp_path_factory.mktemp("logged")
    run = traced_run(folder, wavelets=True, prompt_ids=(1, 2, 3), new_tokens=3, **placement)
    with h5py.File(run.path) as file:
        columns = [file[f"wavelets/{name}"][()].tolist() for name in COLUMNS]
    return run, list(zip(*columns, strict=True))


def write_log(path: Path, moves: list[Move], *, pass_index: int = 0) -> None:
    """Write a trace that contains only a wavelet log."""
    with TraceWriter(path, HEADER) as writer:
        columns = dict(zip(COLUMNS, np.array(moves, int).T, strict=True))
        writer.append("wavelet", {**columns, "pass": np.full(len(moves), pass_index)})


def test_summary_equals_counts_of_the_moves(logged: Logged) -> None:
    (_, report, path), moves = logged
    found = inspect(path)["wavelets"]
    assert "replayed" not in found
    with h5py.File(path) as file:
        last_pass = len(file["passes/schedule"]) - 1
    assert (found["pass"], found["phase"], found["passes"]) == (last_pass, "decode", [last_pass])
    assert found["moves"] == report["wavelets"]["moves"] == len(moves)
    assert found["wavelet_hops"] == report["wavelets"]["wavelet_hops"]
    cycles = {cycle for cycle, *_ in moves}
    assert (found["first_cycle"], found["last_cycle"]) == (min(cycles), max(cycles))
    assert found["moving_cycles"] == len(cycles)
    assert found["moving_fraction"] == pytest.approx(len(cycles) / (max(cycles) - min(cycles) + 1))
    links = Counter(move[1:5] for move in moves if MOVES[move[4]] != "ramp")
    link = found["busiest_link"]
    place = link["wafer"], link["row"], link["col"], MOVES.index(link["direction"])
    assert link["words"] == links[place] == max(links.values())
    routers = Counter(move[1:4] for move in moves)
    pe = found["busiest_pe"]
    assert pe["words"] == routers[pe["wafer"], pe["row"], pe["col"]] == max(routers.values())


def test_words_on_the_ramp_load_no_link(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    write_log(path, [(7, 1, 2, 3, 4, 0, 0)])
    found = inspect(path)["wavelets"]
    assert "busiest_link" not in found
    assert found["wavelet_hops"] == 0
    assert found["busiest_pe"] == {"wafer": 1, "row": 2, "col": 3, "words": 1}
    assert found["moving_fraction"] == 1
    assert main(["inspect", str(path)]) == 0


def test_replay_of_too_many_moves_is_refused(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, _, path), moves = logged
    monkeypatch.setattr(wavelets, "MAX_MOVES", len(moves))
    assert len(inspect(path, cycles="0-999999")["wavelets"]["replayed"]) == len(moves)
    monkeypatch.setattr(wavelets, "MAX_MOVES", len(moves) - 1)
    message = rf"--cycles 0-999999: {len(moves):,} moves, at most {len(moves) - 1:,} are replayed at once; give fewer"
    with pytest.raises(BadInput, match=message):
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
def test_log_with_extreme_cycles_is_shown(
    tmp_path: Path, cycles: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.h5"
    write_log(path, [(cycle, 0, 0, 0, 1, 0, 0) for cycle in cycles])
    assert main(["inspect", str(path)]) == 0
    assert "Wavelets" in capsys.readouterr().out


def test_last_of_several_logged_passes_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with TraceWriter(path, HEADER) as writer:
        for index, cycle in ((4, 11), (2, 5)):
            other_columns = {name: [0] for name in COLUMNS if name != "cycle"}
            writer.append("wavelet", {**other_columns, "cycle": [cycle], "pass": [index]})
    found = inspect(path, cycles="0-20")["wavelets"]
    assert (found["pass"], found["passes"]) == (4, [2, 4])
    assert [move["cycle"] for move in found["replayed"]] == [11]


@pytest.fixture(scope="module")
def sound_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sound") / "t.h5")


@pytest.mark.parametrize("path", ["schedules/first_step", "schedules/steps"])
def test_schedule_of_missing_steps_is_a_problem(sound_trace: Path, tmp_path: Path, path: str) -> None:
    shutil.copy(sound_trace, tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        file[path][1] = 2**63 - 1
    problems = inspect(tmp_path / "t.h5", check=True)["problems"]
    assert any(problem.startswith("schedules/first_step[1]: ") for problem in problems)
