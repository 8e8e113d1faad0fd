"""Tests of the words on links per layer in the trace of a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from tests.inspect.runs import traced_run
from tests.traces.conftest import HEADER
from wse.backends.fabric.links.link_map import busiest_links, link_map, rectangles_of
from wse.tracing.query.request import inspect_trace
from wse.tracing.requests import InspectRequest
from wse_traces import TraceWriter, open_trace, problems
from wse_traces.reader.planes import layer_link_words
from wse_traces.schema import DIRECTIONS

REQUESTS: dict[str, dict[str, Any]] = {
    "regions": {"mesh": "16x24", "region": "8x8", "mapping": "pipeline"},
    "a region over wafers": {"mesh": "9x9", "mapping": "tensor", "wafers": 2},
    "wafers of regions": {"mesh": "8x16", "region": "8x8", "mapping": "pipeline", "wafers": 2},
}


@pytest.fixture(scope="module", params=slow_but(REQUESTS, "wafers of regions"))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the trace of a run of the included model, with cache shifts."""
    options = {"model": "story", "prompt": "Once upon a time", "new_tokens": 30, "schedule": "baseline"}
    return traced_run(tmp_path_factory.mktemp("traced"), **options, **REQUESTS[request.param]).path


def test_words_of_all_layers_equal_the_words_on_links(path: Path) -> None:
    assert problems(path) == []
    with open_trace(path) as trace:
        assert trace.rows("links/words") == trace.header.wafers
        assert trace.column("links/words").any(axis=(1, 2, 3)).all()


def test_words_of_a_layer_equal_the_hops_of_its_steps(path: Path) -> None:
    with open_trace(path) as trace:
        steps = trace.steps()
        layers = sorted(set(trace.column("graph/ops/layer").tolist()))
        wafers = range(trace.header.wafers)
        for layer in layers:
            found = sum(layer_link_words(trace, wafer=wafer, layer=layer).sum() for wafer in wafers)
            assert found == steps["hops"][steps["layer"] == layer].sum()
        assert sorted(set(trace.column("links/layers/layer").tolist())) == layers


def test_layers_with_equal_words_share_a_pattern(path: Path) -> None:
    with open_trace(path) as trace:
        patterns = trace.column("links/patterns/words")
        sizes = zip(trace.column("links/patterns/rows"), trace.column("links/patterns/cols"), strict=True)
        assert len({(*size, words.tobytes()) for size, words in zip(sizes, patterns, strict=True)}) == len(patterns)
        assert trace.rows("pattern") < trace.rows("placed_layer")


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_busiest_link_is_the_same_as_that_of_an_estimate(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = np.random.default_rng(seed)
    row, col = random.integers(0, (5, 4), (12, 2)).T
    end_row, end_col = random.integers((row + 1, col + 1), ([6], [5]), (2, 12))
    rectangles = rectangles_of(random.integers(0, 8, 12), row, end_row, col, end_col, random.integers(1, 3, 12))
    path = tmp_path_factory.mktemp("ties") / "t.h5"
    with TraceWriter(path, HEADER) as writer:  # two wafers of 6x5 PEs
        for words in link_map(rectangles, 8, 6, 5).reshape(2, 4, 6, 5):
            writer.append_plane("links/words", words)
    expected = busiest_links(rectangles)[0]
    for each_link in (False, True):
        found = inspect_trace(InspectRequest(trace=path, links=True, top=1, each_layer=each_link)).to_dict()["links"][0]
        assert found["words"] == expected.words
        assert (found["wafer"] * 4 + DIRECTIONS.index(found["direction"]), found["row"], found["col"]) == expected[:3]


def test_trace_of_a_run_killed_between_patterns_and_layers_can_be_read(path: Path, tmp_path: Path) -> None:
    with open_trace(path) as trace, TraceWriter(tmp_path / "t.h5", trace.header) as writer:
        for wafer in range(trace.header.wafers):
            writer.append_plane("links/words", trace.column("links/words")[wafer])
        writer.append("pattern", trace.table("pattern"))
        writer.flush()
        (tmp_path / "killed.h5.partial").write_bytes(writer.path.read_bytes())
    assert problems(tmp_path / "killed.h5.partial") == []
    facts = inspect_trace(InspectRequest(trace=tmp_path / "killed.h5.partial", links=True)).to_dict()
    assert facts["layer_links"] == []
    assert facts["links"]
