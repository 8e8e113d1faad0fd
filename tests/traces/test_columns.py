"""Tests of columns and tables of a trace: appending rows, indexing, reading single chunks, and data frames."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from tests.traces.conftest import HEADER
from wse_traces import Column, Token, TraceError, TraceWriter, open_trace, problems, schema
from wse_traces.reader import chunks, frames


def keys_of(shape):
    """Return a strategy for keys that index an array of this shape: integers, slices and ellipses."""
    bounds = st.one_of(st.none(), st.integers(-9, 9))
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    key_per_axis = [st.one_of(st.builds(slice, bounds, bounds, steps), st.integers(-n, n - 1)) for n in shape]
    leading_keys = st.integers(0, len(shape)).flatmap(lambda n: st.tuples(*key_per_axis[:n]))
    return st.one_of(
        leading_keys, leading_keys.map(lambda key: (*key, ...)), key_per_axis[-1].map(lambda last: (..., last))
    )


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_column_indexing_equals_numpy_indexing(sample, data):
    path = data.draw(st.sampled_from(["links/words", "steps/cycles_by", "tokens/cycles", "graph/ops/name"]))
    with open_trace(sample) as trace, h5py.File(sample, locking=False) as file:
        key = data.draw(keys_of(trace[path].shape))
        expected = np.asarray(file[path][...][key])
        np.testing.assert_array_equal(np.asarray(trace[path][key], expected.dtype), expected, strict=True)


def test_columns_have_the_metadata_of_the_schema(sample):
    with open_trace(sample) as trace:
        for field in schema.FIELDS:
            column = trace[field.path]
            assert (column.unit, column.axes, column.doc) == (field.unit, field.axes, field.doc)
            assert (column.labels, column.refers) == (field.labels, field.refers)
            values = np.asarray(column)
            assert (values.shape, values.dtype) == (column.shape, column.dtype)
            assert len(column) == len(values) == trace.rows(field.table)
            assert column.ndim == len(column.axes)
        assert set(trace) == {path for table in trace.tables() for path in trace.columns(table)}
        assert trace["links/words"].axis_labels["direction"] == schema.DIRECTIONS


def test_read_box_reads_only_the_chunks_of_the_slice(tmp_path):
    """All chunks outside of the slice are damaged, which must not matter."""
    values = np.arange(100 * 6).reshape(100, 6)
    for rows, cols in ((slice(40, 50), slice(2, 4)), (slice(45, 46), slice(0, 6))):
        with h5py.File(tmp_path / "t.h5", "w") as file:
            dataset = file.create_dataset("x", data=values, chunks=(10, 2), compression="gzip", shuffle=True)
            for row, col in itertools.product(range(0, 100, 10), range(0, 6, 2)):
                if not (row < rows.stop and rows.start < row + 10 and col < cols.stop and cols.start < col + 2):
                    dataset.id.write_direct_chunk((row, col), b"damaged")
            box = ((rows.start, rows.stop), (cols.start, cols.stop))
            np.testing.assert_array_equal(chunks.read_box(dataset.id, box), values[rows, cols])
            with pytest.raises(ValueError, match=r"the chunk at \(0, 0\)"):
                chunks.read_box(dataset.id, ((0, 100), (0, 6)))


@pytest.mark.parametrize("dtype", ["u1", "<i4", "<i8", "<f8", "S128"])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "gzip"}, {"shuffle": True}, {"compression": 9, "shuffle": True, "fletcher32": True}]
)
def test_read_box_decodes_chunks_like_hdf5(tmp_path, dtype, options):
    values = np.random.default_rng(1).integers(0, 99, (37, 5)).astype(dtype)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        dataset = file.create_dataset("x", data=values, chunks=(8, 3), maxshape=(None, 5), **options)
        dataset.resize((60, 5))
        assert list(chunks.storage_problems(dataset.id)) == []
        np.testing.assert_array_equal(chunks.read_box(dataset.id, ((0, 60), (0, 5))), dataset[...], strict=True)


def test_unknown_columns_and_invalid_keys_are_refused(sample):
    with open_trace(sample) as trace:
        column = trace["steps/cycles"]
        assert isinstance(column, Column)
        assert sum(column) == column[:].sum()
        with pytest.raises(IndexError, match=r"steps/cycles: 99 on the axis 'step' of length \d+"):
            column[99]
        with pytest.raises(IndexError, match="steps/cycles: 2 indices, it has the axes step"):
            column[0, 0]
        with pytest.raises(TraceError, match="a trace has no column 'steps/cycle'; did you mean 'steps/cycles' or"):
            trace["steps/cycle"]
        with pytest.raises(TraceError, match=r"a trace has no table 'qqq'; traces/FORMAT\.md lists them all"):
            trace.table("qqq")


def test_slice_above_the_limit_is_refused_and_a_smaller_one_read(sample):
    with open_trace(sample, limit_bytes=64) as trace:
        with pytest.raises(
            TraceError, match=r"steps/cycles: [0-9,]+ B to read, the limit is 64 B; read fewer rows at once"
        ):
            trace["steps/cycles"][:]
        assert len(trace["steps/cycles"][3:9]) == 6


@pytest.fixture(params=slow_but(frames.KINDS))
def kind(request):
    """Return the name of a data frame library; skip the test if it is not installed."""
    pytest.importorskip(request.param)
    return request.param


def rows_of(frame):
    """Return a data frame as one list per column; missing values are None."""
    columns = frame.to_dict("list") if hasattr(frame, "iloc") else frame.to_dict(as_series=False)
    return {name: [None if value != value else value for value in values] for name, values in columns.items()}


def test_frames_have_names_instead_of_codes(sample, kind):
    with open_trace(sample) as trace:
        steps, edges = rows_of(trace.frame("step", 0, 4, kind=kind)), rows_of(trace.frame("edge", kind=kind))
        table = trace.table("step", 0, 4)
        buffers = rows_of(trace.frame("buffer", kind=kind))
    assert edges == {"src": [0, 1], "src_text": ["embed", "mlp"], "dst": [1, 2], "dst_text": ["mlp", "é"]}
    assert steps["kind"] == ["compute", "transfer", "cross", "compute"]
    assert steps["op_text"] == ["embed", "mlp", "é", "embed"]
    assert steps["name_text"] == ["matmul_tile", "all_reduce"] * 2
    assert steps["cycles_by_hops"] == table["cycles_by"][:, 0].tolist()
    assert steps["start_cycle"] == table["start_cycle"].tolist()
    assert (buffers["live_from"], buffers["live_from_text"], buffers["live_to_text"]) == ([-1], [None], ["é"])


def test_frame_of_invalid_names_and_codes(copy, kind):
    with h5py.File(copy, "r+") as file:
        file["graph/ops/name"][...] = [b"<script>", b"<script>", b"\xff"]
        file["steps/op"][0] = 77
        file["steps/kind"][0] = 9
    with open_trace(copy) as trace:
        steps = rows_of(trace.frame("step", 0, 3, kind=kind))
    assert steps["op_text"] == [None, "<script>", "�"]
    assert steps["kind"] == [None, "transfer", "cross"]


def test_frame_of_a_plane_has_one_row_per_element(sample, kind):
    with open_trace(sample) as trace:
        frame, words = rows_of(trace.frame("links/words", 1, kind=kind)), trace.column("links/words", 1)
        patterns = rows_of(trace.frame("pattern", kind=kind))
    row = 4 * 30 // 2 + 7
    assert frame["words"] == words.ravel().tolist()
    assert [frame[axis][row] for axis in ("wafer", "direction", "row", "col")] == [1, "south", 1, 2]
    assert set(patterns) == {"rows", "cols"}


INT64 = st.integers(0, 2**63 - 1)
WAFERS = st.sampled_from([(-1, 0), (0, -1)])
CROSSINGS = st.lists(st.builds(lambda wafers, *sizes: (*wafers, *sizes), WAFERS, INT64, INT64), max_size=40)
TEXT = st.binary(max_size=12)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(CROSSINGS, st.lists(TEXT, max_size=5), st.booleans()), max_size=5), st.booleans())
def test_tables_contain_the_appended_rows(batches, complete):
    with TemporaryDirectory() as folder:
        writer = TraceWriter(Path(folder) / "t.h5", HEADER)
        positions = itertools.count()
        for crossings, texts, flush in batches:
            columns = dict(
                zip(("src_wafer", "dst_wafer", "bytes", "cycles"), zip(*crossings, strict=True), strict=False)
            )
            if crossings:
                writer.append("crossing", {"pass": np.full(len(crossings), -1), **columns})
            for text in texts:
                writer.append_tokens(
                    Token(token_id=1, text=text, is_prompt=True, pass_index=-1, position=next(positions))
                )
            if flush:
                writer.flush()
        path = writer.close(complete=complete)
        assert problems(path) == []
        with open_trace(path) as trace:
            assert trace.complete == complete
            names = ("src_wafer", "dst_wafer", "bytes", "cycles")
            rows = zip(*(trace.column(f"crossings/{n}").tolist() for n in names), strict=True)
            assert list(rows) == [row for batch in batches for row in batch[0]]
            assert trace.token_bytes() == [text for batch in batches for text in batch[1]]


def test_tables_longer_than_a_chunk_contain_the_appended_rows(tmp_path):
    rng = np.random.default_rng(3)
    parts = [rng.integers(0, 2**40, n) for n in (1, 4095, 4096, 5000, 0, 9000)]
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        for part in parts:
            zero = np.zeros(len(part), int)
            writer.append("expert_load", {"layer": zero, "expert": zero, "tokens": part})
            writer.flush()
    assert problems(tmp_path / "t.h5") == []
    with open_trace(tmp_path / "t.h5") as trace:
        np.testing.assert_array_equal(trace.column("experts/tokens"), np.concatenate(parts))
        np.testing.assert_array_equal(trace.column("experts/tokens", 4000, 5000), np.concatenate(parts)[4000:5000])


def test_names_of_a_discarded_transaction_are_appended_again(tmp_path):
    def discard(writer):
        with writer.transaction():
            writer.append_names(["discarded", "kept"])
            raise KeyError

    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        with pytest.raises(KeyError):
            discard(writer)
        assert writer.append_names(["kept"]).tolist() == [0]
    with open_trace(tmp_path / "t.h5") as trace:
        assert trace.column("strings/names").tolist() == [b"kept"]
