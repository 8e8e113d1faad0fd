"""Tests that a reader returns what was written to a trace: rows, schedules, steps, layers and planes."""

import h5py
import numpy as np
import pytest

from wse_traces import TraceError, TraceWriter, open_trace, problems, schema
from wse_traces.reader.planes import layer_link_words

pytestmark = pytest.mark.smoke


def test_sample_conforms_to_the_schema_and_is_read_as_written(sample, header):
    assert problems(sample) == []
    assert not sample.with_name("sample.h5.partial").exists()
    with open_trace(sample) as trace:
        assert (trace.complete, trace.ending) == (True, "")
        assert trace.header == header
        assert trace.texts("graph/ops/name") == ["embed", "mlp", "é"]
        assert trace.texts("strings/names") == ["matmul_tile", "all_reduce"]
        assert trace.token_texts()[:7] == ["Once", " upon", " a", " t", "ime", " é", "!"]
        assert trace.report() == {"text": "é", "decode": {"cycles_per_token": 12}}
        np.testing.assert_array_equal(trace.tensor(0)[0, 0], np.arange(6, dtype="f4").reshape(2, 3))
        assert trace.tensor(1).dtype == np.float16
        assert trace.tensor(1).ravel().tolist() == [0, 1, 2, 3]
        words = trace.column("links/words", 1, 2)
        np.testing.assert_array_equal(words[0], np.arange(120).reshape(4, 6, 5) + 1)
        assert trace.column("pe/busy_cycles")[1, 5, 4] == 2**40 + 1
        pattern = trace.column("links/patterns/words")[0]
        assert pattern.shape == (4, 6, 5)
        assert pattern.sum() == pattern[:, :2, :3].sum() == 24


def test_layer_link_words_are_at_their_place_and_add_up(sample):
    with open_trace(sample) as trace:
        expected = np.zeros((4, 6, 5), int)
        expected[:, 4:6, 1:4] = 1
        np.testing.assert_array_equal(layer_link_words(trace, wafer=0, layer=1), expected)
        assert not layer_link_words(trace, wafer=1, layer=1).any()
        for wafer in range(2):
            np.testing.assert_array_equal(layer_link_words(trace, wafer=wafer), trace.column("links/words")[wafer])


def test_sram_map_follows_from_the_stages(sample):
    with open_trace(sample) as trace:
        sram = trace.column("sram/bytes_per_pe")
    assert (sram.sum(axis=1) == 1000).all()
    assert sram[0, :, 0, 1].tolist() == [100, 200, 300, 0, 50, 350]
    assert sram[0, :, 0, 0].tolist() == [0, 0, 0, 0, 0, 1000]
    assert sram[1, :, 2, 2].tolist() == [100, 0, 0, 0, 0, 900]


def test_steps_of_a_token_start_at_the_start_of_its_pass(sample):
    with open_trace(sample) as trace:
        first, second = trace.steps(3), trace.steps(4)
        assert first["start_cycle"][0] == 0
        assert len(first["op"]) == 8
        assert set(first["phase"]) == {0}
        assert second["start_cycle"][0] == 360
        assert set(second["token"]) == {4}
        ends = [int((s["start_cycle"] + s["cycles"])[-1]) for s in (trace.steps(t) for t in range(3, 12))]
        assert np.diff(ends).tolist() == trace.column("tokens/cycles")[4:].tolist()


def test_all_steps_are_the_steps_of_all_passes_in_order(sample):
    with open_trace(sample) as trace:
        whole = trace.steps()
        parts = [trace.steps(t) for t in range(3, 12)]
        for name, column in whole.items():
            np.testing.assert_array_equal(column, np.concatenate([p[name] for p in parts]), err_msg=name)
        assert (np.diff(whole["start_cycle"]) > 0).all()


@pytest.mark.parametrize("by", ["cycles", "words", "hops", "hops_cycles", "host_cycles"])
def test_top_steps_are_the_sums_over_all_executed_steps(sample, by):
    with open_trace(sample) as trace:
        top, steps = trace.top_steps(by, n=1000), trace.steps()
    keys = list(zip(*(steps[n].tolist() for n in ("phase", "op", "name", "kind", "layer")), strict=True))
    cause = by.removesuffix("_cycles")
    cost = steps["cycles_by"][:, schema.CAUSES.index(cause)] if cause != by else steps[by]
    expected: dict = {}
    for key, value in zip(keys, cost.tolist(), strict=True):
        expected[key] = expected.get(key, 0) + value
    found = zip(*(top[n].tolist() for n in ("phase", "op", "name", "kind", "layer")), strict=True)
    assert dict(zip(found, top[by].tolist(), strict=True)) == expected
    assert (np.diff(top[by]) <= 0).all()
    assert top["times"].sum() == len(steps["op"])


def test_writer_refuses_a_trace_that_another_run_writes(tmp_path, header):
    refused = pytest.raises(TraceError, match="another run is writing this trace; give another path")
    with TraceWriter(tmp_path / "t.h5", header), refused:
        TraceWriter(tmp_path / "t.h5", header)
    assert [p.name for p in tmp_path.iterdir()] == ["t.h5"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1]}, "has the columns"),
        ({"src": [1], "dst": [1, 2]}, "different lengths"),
        ({"src": [1], "dst": [2**31]}, "cannot hold"),
        ({"src": [1], "dst": [0.5]}, "cannot hold"),
        ({"src": [[1]], "dst": [[1]]}, "rows of shape"),
    ],
)
def test_rows_that_do_not_fit_the_table_are_refused(tmp_path, header, columns, message):
    with TraceWriter(tmp_path / "t.h5", header) as writer, pytest.raises(ValueError, match=message):
        writer.append("edge", columns)
    assert problems(tmp_path / "t.h5") == []


def test_closed_writer_refuses_rows(tmp_path, header):
    writer = TraceWriter(tmp_path / "t.h5", header)
    assert writer.close() == writer.close() == tmp_path / "t.h5"
    with pytest.raises(ValueError, match="closed"):
        writer.append("edge", {"src": [1], "dst": [1]})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("links/layers/pattern", 3, "pattern 3 is missing"),
        ("links/layers/row", 2**31 - 1, "row 0 leaves the mesh"),
        ("links/layers/col", -1, "row 0 leaves the mesh"),
        ("links/patterns/cols", 6, "row 0 leaves the mesh"),
    ],
)
def test_layer_link_words_refuses_layers_outside_of_the_mesh(copy, path, value, message):
    with h5py.File(copy, "r+") as file:
        file[path][0] = value
    with open_trace(copy) as trace, pytest.raises(TraceError, match=f"{message}; make the trace again"):
        layer_link_words(trace, wafer=0)
