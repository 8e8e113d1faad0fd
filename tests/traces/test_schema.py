"""Tests of the trace schema, its generated page and the golden traces, and of the replay of wavelet logs."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.conftest import HEADER
from wse_traces import TraceError, TraceWriter, open_trace, problems, schema
from wse_traces.format_page import page
from wse_traces.reader import replay
from wse_traces.reader.replay import wavelet_activity, wavelet_cycles, wavelet_passes, wavelet_words

TRACES = Path(__file__).parents[2] / "traces"


def test_format_page_is_up_to_date():
    stale = "python -m wse_traces.format_page > traces/FORMAT.md"
    assert (TRACES / "FORMAT.md").read_text(encoding="utf-8") == page(), f"stale, run: {stale}"


def test_reader_on_the_format_page_agrees_with_the_library(sample):
    parser = page().split("```python\n")[1].split("```")[0]
    assert len([line for line in parser.splitlines() if line]) == 20
    names: dict = {}
    exec(parser, names)
    with open_trace(sample) as trace:
        for token in range(trace.rows("token")):
            library_columns, page_columns = trace.steps(token), names["steps_of_token"](sample, token)
            assert page_columns.keys() <= library_columns.keys()
            for name, column in page_columns.items():
                np.testing.assert_array_equal(library_columns[name], column, err_msg=name)


GOLDEN = sorted(TRACES.glob("golden/v*/*.h5"))
assert GOLDEN, "no golden traces"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_golden_traces_of_every_version_are_valid(path):
    assert problems(path) == []
    with open_trace(path) as trace:
        assert trace.complete
        assert trace.rows("token") > 0
        assert trace.column("tokens/cycles").sum() > 0
        assert trace.version == int(path.parent.name.removeprefix("v"))


def test_file_describes_its_axes_units_and_labels(sample):
    with h5py.File(sample, "r") as file:
        for field in schema.FIELDS:
            attributes = file[field.path].attrs
            assert attributes["axes"].decode().split(",") == list(field.axes), field.path
            assert len(field.axes) == file[field.path].ndim, field.path
            assert (attributes["unit"].decode(), attributes["doc"].decode()) == (field.unit, field.doc), field.path
            assert len(file[field.path]) > 0, f"{field.path}: the sample leaves no table empty"
            settings = [getattr(file[field.path], name) for name in ("compression", "shuffle", "fletcher32")]
            assert settings == ["gzip", True, True], field.path
        assert file["steps/cycles_by"].attrs["labels_cause"] == b"hops,relays,compute,launch,crossing,host"
        assert file["links/words"].attrs["labels_direction"] == b"north,east,south,west"
        for path in ("sram/bytes_per_pe", "sram/stage_bytes"):
            assert file[path].attrs["labels_use"] == b"code,weights,kv,activations,buffers,free"


def test_file_contains_the_command_that_prints_its_format(sample):
    with h5py.File(sample, "r") as file:
        command = file.attrs["format_doc"].decode()
    program, *arguments = command.split()
    assert program == "python"
    process = subprocess.run([sys.executable, *arguments], capture_output=True, check=True, text=True)
    assert process.stdout == page()


def test_wavelet_words_count_the_moves_over_links(sample):
    with open_trace(sample) as trace:
        assert wavelet_passes(trace) == [1]
        words = wavelet_words(trace, pass_index=1)[:, :4]
        assert words.shape == (2, 4, 6, 5)
        assert {tuple(place) for place in np.argwhere(words).tolist()} == {(1, 1, 1, 0), (1, 2, 1, 1)}
        assert words.sum() == 4
        assert wavelet_words(trace, pass_index=1)[1, :, 1, 1].tolist() == [
            0,
            0,
            2,
            0,
            2,
        ]  # the last is the ramp into the PE
        assert wavelet_words(trace, pass_index=1, before_cycle=5)[:, :4].sum() == 3
        assert not wavelet_words(trace, pass_index=0)[:, :4].any()


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 4), st.integers(0, 4)), max_size=40))
def test_replay_yields_the_appended_moves(tmp_path_factory, moves):
    path = tmp_path_factory.mktemp("replay") / "t.h5"
    columns = np.array(moves, int).reshape(-1, 4).T
    rows = dict(zip(("cycle", "row", "col", "direction"), columns, strict=True))
    with TraceWriter(path, HEADER) as writer:
        writer.append("wavelet", {**rows, **dict.fromkeys(("pass", "step", "wafer", "colour"), 0 * columns[0])})
    with open_trace(path) as trace:
        replayed = [
            (cycle, *move)
            for cycle, now in wavelet_cycles(trace, pass_index=0)
            for move in zip(*(now[name].tolist() for name in ("row", "col", "direction")), strict=True)
        ]
        assert sorted(replayed) == sorted(moves)
        assert [cycle for cycle, *_ in replayed] == sorted(cycle for cycle, *_ in moves)
        for before in (None, 5):
            counted = sum(1 for cycle, *_, side in moves if side < 4 and (before is None or cycle < before))
            assert wavelet_words(trace, pass_index=0, before_cycle=before)[:, :4].sum() == counted


def test_replay_does_not_depend_on_the_read_size(sample, monkeypatch):
    def replayed():
        with open_trace(sample) as trace:
            stepped = [(cycle, rows["direction"].tolist()) for cycle, rows in wavelet_cycles(trace, pass_index=1)]
            cycles, moves = wavelet_activity(trace, pass_index=1)
            return stepped, cycles.tolist(), moves.tolist(), wavelet_words(trace, pass_index=1).tolist()

    in_one_read = replayed()
    assert in_one_read[1:3] == ([0, 1, 4, 5], [1, 2, 1, 2])
    monkeypatch.setattr(replay, "_ROWS_AT_ONCE", 2)
    assert replayed() == in_one_read


@pytest.mark.parametrize(
    ("first", "last", "cycles"),
    [(None, None, [0, 1, 4, 5]), (1, 4, [1, 4]), (2, 3, []), (5, None, [5]), (None, 0, [0]), (6, 2**60, [])],
)
def test_wavelet_cycles_includes_first_and_last_cycle(sample, first, last, cycles):
    with open_trace(sample) as trace:
        stepped = wavelet_cycles(trace, pass_index=1, first=first, last=last)
        assert [cycle for cycle, _ in stepped] == cycles


def test_replay_refuses_to_read_more_than_the_limit(sample):
    message = "wavelets: 2,400 B to read, the limit is 2,399 B"
    with open_trace(sample, limit_bytes=2399) as trace, pytest.raises(TraceError, match=message):
        wavelet_words(trace, pass_index=1)  # 2 wafers, 5 moves, 6x5 PEs, 8 bytes
    with open_trace(sample, limit_bytes=6 * 8) as trace:
        with pytest.raises(TraceError, match="wavelets: 64 B to read, the limit is 48 B"):
            wavelet_activity(trace, pass_index=1)
        with pytest.raises(TraceError, match="wavelets: 102 B to read, the limit is 48 B"):
            list(wavelet_cycles(trace, pass_index=1, first=0, last=1))
        assert [cycle for cycle, _ in wavelet_cycles(trace, pass_index=1, first=4, last=4)] == [4]
