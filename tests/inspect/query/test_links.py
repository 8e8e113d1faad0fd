"""The busiest links are those of the whole planes, and the words of their layers are all their words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.inspect.runs import inspect, traced_run
from tests.traces.conftest import HEADER, write
from wse_traces import TraceWriter
from wse_traces.schema import DIRECTIONS


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Planes of several chunks with many equal words, and the planes."""
    header = replace(HEADER, rows=300, cols=270)
    planes = np.random.default_rng(11).integers(0, 40, (2, 4, 300, 270)) ** 3
    path = tmp_path_factory.mktemp("large") / "t.h5"
    with TraceWriter(path, header) as writer:
        for plane in planes:
            writer.append_plane("links/words", plane)
    return path, planes


@settings(max_examples=5, deadline=None)
@given(top=st.integers(0, 700))
def test_they_are_those_with_the_most_words(large: tuple[Path, np.ndarray], top: int) -> None:
    path, planes = large
    links = inspect(path, links=True, top=top, each_layer=True)["links"]
    words = [link["words"] for link in links]
    assert words == np.sort(planes.ravel())[::-1][:top].tolist()
    places = [(link["wafer"], DIRECTIONS.index(link["direction"]), link["row"], link["col"]) for link in links]
    assert len(set(places)) == top
    assert [planes[place] for place in places] == words
    assert places == sorted(places, key=lambda place: (-planes[place], *place))


@settings(max_examples=5, deadline=None)
@example(top=8)  # all of a tie, and none beyond
@given(top=st.integers(0, 60))
def test_equal_ones_are_told_once(large: tuple[Path, np.ndarray], top: int) -> None:
    path, planes = large
    ties = [(-words, *place) for place in np.ndindex(2, 4) for words in np.unique(planes[place]).tolist() if words]
    links = inspect(path, links=True, top=top)["links"]
    assert len(links) == min(top, len(ties))
    for link, (words, wafer, direction) in zip(links, sorted(ties), strict=False):
        rows, cols = np.nonzero(planes[wafer, direction] == -words)
        assert (link["words"], link["wafer"], DIRECTIONS.index(link["direction"])) == (-words, wafer, direction)
        assert (link["row"], link["col"], link["count"]) == (rows[0], cols[0], len(rows))
        assert (link["rows"], link["cols"]) == ([rows.min(), rows.max()], [cols.min(), cols.max()])


@pytest.mark.parametrize("mapping", ["region", "pipeline", "tensor"])
def test_their_layers_have_all_their_words(tmp_path: Path, mapping: str) -> None:
    path = traced_run(tmp_path, prompt_ids=(1, 2), wafers=2, mesh="4x4", mapping=mapping, new_tokens=3).path
    links, folded = (inspect(path, links=True, top=1000, each_layer=each)["links"] for each in (True, False))
    assert len(links) > 20
    counts = Counter(equal_key(link) for link in links)
    assert {equal_key(link): link["count"] for link in folded} == dict(counts)
    assert len(folded) == len(counts) < len(links)
    for link in links:
        assert sum(each["words"] for each in link["layers"]) == link["words"]
        words = [each["words"] for each in link["layers"]]
        assert words == sorted(words, reverse=True)
        assert min(words) > 0


def equal_key(link: dict[str, Any]) -> tuple[object, ...]:
    layers = sorted((each["layer"], each["words"]) for each in link["layers"])
    return link["wafer"], link["direction"], link["words"], tuple(layers)


def test_links_without_words_are_none(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        for _ in range(2):
            writer.append_plane("links/words", np.zeros((4, 6, 5), int))
    assert inspect(tmp_path / "t.h5", links=True)["links"] == []


@pytest.mark.parametrize(("column", "value"), [("pattern", 10**6), ("pattern", -5), ("row", 2**31 - 1), ("col", -9)])
def test_layers_that_lie_nowhere_are_not_told(tmp_path: Path, column: str, value: int) -> None:
    path = write(tmp_path / "t.h5")
    with h5py.File(path, "r+") as file:
        file[f"links/layers/{column}"][...] = value
    links = inspect(path, links=True)["links"]
    assert len(links) == 20
    assert all(each["words"] > 0 for link in links for each in link["layers"])
