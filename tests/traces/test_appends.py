"""Property: a table is the concatenation of all that was appended to it, however it was flushed."""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.conftest import HEADER
from wse_traces import Token, TraceWriter, open_trace, problems

INT64 = st.integers(0, 2**63 - 1)
WAY = st.sampled_from([(-1, 0), (0, -1)])
CROSSINGS = st.lists(st.builds(lambda way, *sizes: (*way, *sizes), WAY, INT64, INT64), max_size=40)
TEXT = st.binary(max_size=12)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(CROSSINGS, st.lists(TEXT, max_size=5), st.booleans()), max_size=5), st.booleans())
def test_tables_are_what_was_appended(batches, complete):
    with TemporaryDirectory() as folder:
        writer = TraceWriter(Path(folder) / "t.h5", HEADER)
        places = itertools.count()
        for crossings, texts, flush in batches:
            columns = dict(
                zip(("src_wafer", "dst_wafer", "bytes", "cycles"), zip(*crossings, strict=True), strict=False)
            )
            if crossings:
                writer.append("crossing", {"pass": np.full(len(crossings), -1), **columns})
            for text in texts:
                writer.append_tokens(Token(token_id=1, text=text, is_prompt=True, pass_index=-1, position=next(places)))
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


def test_tables_longer_than_a_chunk(tmp_path):
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
