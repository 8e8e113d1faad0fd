"""Tests of weights in SRAM: PEs store the values that tile indices name, and non-finite values are refused."""

import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from compiled import compile_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.arrays import I32
from wse.backends.execute.engine import Engine
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.observation.observation import Observation
from wse.backends.execute.weight_storage import quantise, tiles, weights
from wse.backends.execute.weight_storage.tiles import (
    inner_places,
    patch_shard,
    patches,
    row_range,
    split_by_offset,
    strips,
)
from wse.compiler.options import Options
from wse.errors import BadModel
from wse.program.steps import COLUMNS, ROWS, SKEWED
from wse.program.tiles import Tile, TilePart
from wse_kernels import library
from wse_kernels.codegen.jit import get_threads, set_threads
from wse_mappings.patterns.rings import skew

SPEC = tiny_spec()


def indices(random: np.random.Generator, lanes: int, count: int, size: int, ordered: bool) -> I32:  # noqa: FBT001
    """Return indices `[lanes, count]` below ``size``; -1 pads some lanes at the end."""
    if ordered:  # contiguous ranges, one per lane
        flat = np.arange(lanes * count)
        return np.where(flat < size, flat, -1).reshape(lanes, count).astype(np.int32)
    found = random.integers(0, size, (lanes, count)).astype(np.int32)
    found[:, count - 1] = np.where(random.random(lanes) < 0.3, -1, found[:, count - 1])
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 4),
    cols=st.integers(1, 5),
    axes=st.sampled_from([(a, b) for a in (ROWS, COLUMNS, SKEWED, None) for b in (ROWS, COLUMNS)]),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    transposed=st.booleans(),
    ordered=st.booleans(),
    moved=st.booleans(),
    shared=st.booleans(),
    values_per_read=st.sampled_from([1, 7, 1 << 20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_stored_values_are_those_of_the_tile_indices(
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    cols: int,
    axes: tuple[int | None, int],
    sizes: tuple[int, int],
    transposed: bool,  # noqa: FBT001
    ordered: bool,  # noqa: FBT001
    moved: bool,  # noqa: FBT001
    shared: bool,  # noqa: FBT001
    values_per_read: int,
    seed: int,
) -> None:
    monkeypatch.setattr(tiles, "VALUES_PER_READ", values_per_read)
    random = np.random.default_rng(seed)
    outer_axis, inner_axis = axes
    rows = cols if outer_axis == SKEWED else rows
    lanes = {ROWS: cols, COLUMNS: rows, SKEWED: cols}
    axis_sizes = [max(1, lanes[a] * n - 1) if a is not None else 1 for a, n in zip(axes, sizes, strict=True)]
    inner = indices(random, lanes[inner_axis], sizes[1], axis_sizes[1], ordered)
    outer = None if outer_axis is None else indices(random, lanes[outer_axis], sizes[0], axis_sizes[0], ordered)
    transposed = transposed and outer is not None
    offset = random.integers(-1, 3, (cols, 1 + seed % 2)).astype(np.int32) if moved and inner_axis == COLUMNS else None
    axis_sizes[1] += 0 if offset is None else 2
    sharers = (rows if inner_axis == ROWS else cols) if shared and outer is None and offset is None else 1
    shape = (axis_sizes[1],) if outer is None else tuple(axis_sizes[::-1]) if transposed else tuple(axis_sizes)
    tensor = random.random(shape, np.float32) + 1
    tensor.flags.writeable = False
    part = TilePart(
        tensor="t",
        outer=outer,
        outer_axis=ROWS if outer_axis is None else outer_axis,
        inner=inner,
        inner_axis=inner_axis,
        transposed=transposed,
        offset=offset,
        sharers=sharers,
    )
    a, b = (1 if outer is None else sizes[0]), part.width
    tile = Tile(stage=0, name="t", address=0, view="f32", outer=a, inner=b, parts=(part,))
    arena, every = Arena(rows, cols, 0, 4 * a * b), split_by_offset(part)
    many = replace(tile, parts=tuple(every))
    for patch in patches(every, [tensor] * len(every), rows, cols):
        for one, places in zip(every, inner_places(every, 1), strict=True):
            first, last = row_range(one, patch)
            for strip in strips(one, patch) if first < last else ():
                arena.store("float32", 0, tensor[first:last], patch_shard(one, first, strip, many, places))
    got = arena.read("float32", 0, a * b).reshape(rows, cols, a, b)
    if outer_axis != inner_axis and (offset is None or outer_axis in (None, ROWS)):
        assert np.count_nonzero(got) == part.real_elements(rows, cols)
    for i in range(rows):
        for j in range(cols):
            inner_indices = inner[j if inner_axis == ROWS else i]
            if sharers > 1:
                inner_indices = [*inner_indices, *[-1] * (b * sharers)][b * (i if inner_axis == ROWS else j) :][:b]
            if offset is not None:
                inner_indices = [y + by if y >= 0 and by >= 0 else -1 for by in offset[j] for y in inner_indices]
            if outer is None:
                expected = [[tensor[y] if y >= 0 else 0 for y in inner_indices]]
            else:
                lane = {ROWS: j, COLUMNS: i}.get(part.outer_axis, int(skew(i, cols)[j]) if rows == cols else 0)
                source = tensor.T if transposed else tensor
                expected = [[source[x, y] if x >= 0 and y >= 0 else 0 for y in inner_indices] for x in outer[lane]]
            np.testing.assert_array_equal(got[i, j], expected)


def test_large_tensors_are_read_in_ranges_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "VALUES_PER_READ", 100)
    monkeypatch.setattr(weights, "VALUES_PER_READ", 100)
    read: list[tuple[str, int, int]] = []
    values_by_name = tensors(SPEC)

    class WatchedTensor:
        def __init__(self, name: str) -> None:
            self.name, self.shape = name, values_by_name[name].shape

        def __getitem__(self, rows: slice) -> Any:
            begin, end, _ = rows.indices(self.shape[0])
            read.append((self.name, begin, end))
            assert (end - begin) * int(np.prod(self.shape[1:])) <= max(100, 2 * int(np.prod(self.shape[1:])))
            return values_by_name[self.name][rows]

    streamed, whole = engine(tensor=WatchedTensor), engine(tensor=values_by_name.__getitem__)
    for one, other in zip(streamed.arenas.values(), whole.arenas.values(), strict=True):
        np.testing.assert_array_equal(one.memory, other.memory)
    assert len([begin for name, begin, _ in read if name == "embedding"]) > 10


def engine(dtype: str = "float32", tensor: Any = None, **given: Any) -> Engine:
    """Return an engine of the tiny model on 3x3 PEs; ``tensor`` returns the values of a name."""
    options = Options(mapping="region", wafers=1, dtype=dtype, accumulate="float32", context=12, prompt_tokens=(2,))
    options = replace(options, activations="float32" if dtype == "int8" else None)
    program = compile_model(SPEC, wafer(3, 3, 1 << 20), SOFTWARE, options)
    return Engine(program, SPEC, tensor, **given)


@pytest.mark.parametrize(("dtype", "bad"), [(np.float32, np.nan), (np.float16, np.inf), (ml_dtypes.bfloat16, -np.inf)])
def test_nonfinite_values_are_refused_with_their_number(dtype: Any, bad: float) -> None:
    values_by_name: dict[str, Any] = dict(tensors(SPEC))
    values_by_name["layers.1.up"] = values_by_name["layers.1.up"].astype(dtype)
    values_by_name["layers.1.up"][[3, 7, 40], [1, 30, 2]] = bad
    message = (
        r"^layers\.1\.up: 3 of 2,080 values are not finite numbers; "
        r"fetch or convert the weights again, or use --allow-nonfinite$"
    )
    for stored in ("float32", "float16", "int8"):
        with pytest.raises(BadModel, match=message):
            engine(stored, tensor=values_by_name.__getitem__)
    run = engine(tensor=values_by_name.__getitem__, allow_nonfinite=True)
    stored = np.concatenate([arena.view("float32").reshape(-1) for arena in run.arenas.values()])
    assert (~np.isfinite(stored)).sum() >= 3


@pytest.mark.skipif(library.THREADS < 2, reason="numba has one thread")
@pytest.mark.parametrize("threads", [1, 2])
def test_storing_uses_as_many_threads_as_the_caller_set_for_kernels(threads: int) -> None:
    values_by_name, reading, reader_counts = tensors(SPEC), set[int](), list[int]()

    class WatchedTensor:
        def __init__(self, name: str) -> None:
            self.name, self.shape = name, values_by_name[name].shape

        def __getitem__(self, rows: slice) -> Any:
            reading.add(threading.get_ident())
            reader_counts.append(len(reading))
            time.sleep(0.002)  # lets other threads start to read
            reading.discard(threading.get_ident())
            return values_by_name[self.name][rows]

    before = get_threads()
    try:
        set_threads(threads)
        engine(tensor=WatchedTensor)
    finally:
        set_threads(before)
    assert max(reader_counts) == threads


def test_progress_counts_the_values_of_each_stored_tile() -> None:
    """Progress is reported once per tile, in the order of the tiles of the Program."""
    values_by_name, counted = tensors(SPEC), list[tuple[int, int, str]]()
    stored = engine(
        tensor=values_by_name.__getitem__, observation=Observation(on_stored=lambda *progress: counted.append(progress))
    )
    tiles_stored = {tile.name: tile.outer * tile.inner for tile in stored.program.tiles}
    pes = sum(arena.rows * arena.cols for arena in stored.arenas.values())
    assert counted[0] == (0, counted[-1][0], "")
    assert [name for _, _, name in counted[1:]] == list(tiles_stored)
    assert [count for count, _, _ in counted[1:]] == [*accumulate(size * pes for size in tiles_stored.values())]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_tensors_that_are_decoded_whole_are_read_at_once(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    for module in (tiles, weights):
        monkeypatch.setattr(module, "VALUES_PER_READ", 100)
    monkeypatch.setattr(quantise, "VALUES_AT_ONCE", 100)
    values_by_name, reads = tensors(SPEC), Counter[str]()

    class DecodedTensor:
        is_read_whole = True

        def __init__(self, name: str) -> None:
            self.name, self.shape = name, values_by_name[name].shape

        def decoded_values(self, first: int, last: int) -> int:
            return values_by_name[self.name].size

        def __getitem__(self, rows: slice) -> Any:
            reads[self.name] += 1
            return values_by_name[self.name][rows]

    decoded, whole = engine(dtype, DecodedTensor), engine(dtype, values_by_name.__getitem__)
    for one, other in zip(decoded.arenas.values(), whole.arenas.values(), strict=True):
        np.testing.assert_array_equal(one.memory, other.memory)
    assert reads["layers.0.up"] == (1 if dtype == "float32" else 2)  # once for codes and once for scales
