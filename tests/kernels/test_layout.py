"""Tests of the memory that kernels access: lanes of an arena, extents of records, results in place, ends of arrays."""

import ctypes
import mmap
import os
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dequantised import byte_offset
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import helpers, messages, test_line_sums, test_transfers
from tests.kernels.helpers import (
    COMMON_TYPES,
    JIT,
    NUMPY_TYPE,
    STORAGE,
    ByteRange,
    Case,
    from_lanes,
    lanes_of,
    lay_out,
    make_case,
    numbers,
    run_kernel,
    run_oracle,
    to_lanes,
    view,
)
from tests.kernels.shapes import PRIMES, SIZES, shape_of
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.tiles import Patch, PatchShard
from wse.program.isa.instructions import KERNELS, kernel_named
from wse_kernels.library import compiled_kernel
from wse_kernels.oracle.memory import ELEMENT_BYTES, Pe

NO_ACCESS = 0


def between_pages(array: npt.NDArray[Any], *, at_end: bool) -> npt.NDArray[Any]:
    """Return a copy of an array between two inaccessible pages, at the end or at the start of the accessible pages."""
    page, size = mmap.PAGESIZE, array.nbytes
    inside = -(-size // page) * page
    region = mmap.mmap(-1, inside + 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for protected in (base, base + page + inside):
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(protected), ctypes.c_size_t(page), NO_ACCESS):
            raise OSError("mprotect did not protect a page")
    start = page + (inside - size if at_end else 0)
    placed = np.frombuffer(region, array.dtype, array.size, start).reshape(array.shape)
    placed[...] = array
    return placed


def store_values(
    arena: Arena, element_type: str, address: int, values: Any, first_row: int = 0, first_col: int = 0
) -> None:
    """Store ``values [rows, cols, n]`` in PEs from ``first_row`` and ``first_col`` on."""
    rows, cols, count = values.shape
    places = np.arange(count, dtype=np.int32)
    shard = PatchShard(
        patch=Patch(first_row, first_row + rows, first_col, first_col + cols),
        rows=np.arange(rows * cols, dtype=np.int32).reshape(rows, 1, cols),
        columns=places[None, :, None].copy(),
        row_places=np.zeros(1, np.int32),
        column_places=places,
        row_shifts=np.zeros(1, np.int32),
        column_shifts=np.zeros(count, np.int32),
    )
    arena.store(element_type, address, values.reshape(-1, count), shard)


COLS = st.sampled_from([1, 2, 7, 127, 128, 129, 250, 257])
BUFFERS = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(sorted(NUMPY_TYPE))), min_size=1, max_size=4)


def random_memory(rows: int, cols: int, ranges: list[ByteRange], size: int, seed: int) -> np.ndarray:
    """Return PE memory, uint8 ``[rows, cols, size]``, with random numbers in the ranges and 0 elsewhere."""
    memory = np.zeros((rows, cols, size), np.uint8)
    for s in ranges:
        number = NUMPY_TYPE[s.element]
        values = numbers(np.random.default_rng(seed), (rows, cols, (s.end - s.start) // number.itemsize))
        memory[..., s.start : s.end] = values.astype(number).view(np.uint8)
    return memory


def spare_lanes(arena: Arena) -> int:
    """Return the number of lanes of a block beyond those that the columns need."""
    return arena.lanes - lanes_of(arena.cols)[1]


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=BUFFERS, seed=st.integers(0, 2**32 - 1))
def test_arena_stores_and_reads_the_values_of_pes(
    rows: int, cols: int, sizes: list[tuple[int, str]], seed: int
) -> None:
    ranges, size = lay_out(sizes)
    memory = random_memory(rows, cols, ranges, size, seed)
    arena = Arena(rows, cols, 4096, 4096 + size)
    for s in ranges:
        values = memory[:, :, s.start : s.end].copy().view(NUMPY_TYPE[s.element])
        patches = [(0, 0), (rows // 2, cols // 2), (0, cols // 3)]  # the patches overlap
        for row, col in patches:
            store_values(arena, s.element, s.address, values[row:, col:], row, col)
    in_lanes = to_lanes(memory, ranges, spare_lanes(arena), dead=0)
    np.testing.assert_array_equal(arena.memory, in_lanes.reshape(-1))
    for s in ranges:
        count = (s.end - s.start) // NUMPY_TYPE[s.element].itemsize
        read = arena.read(s.element, s.address, count)
        np.testing.assert_array_equal(read.astype(np.float64), s.values(memory))


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 3), cols=COLS, sizes=BUFFERS, seed=st.integers(0, 2**32 - 1))
def test_byte_offset_finds_every_byte_of_a_pe(rows: int, cols: int, sizes: list[tuple[int, str]], seed: int) -> None:
    ranges, size = lay_out(sizes)
    memory = np.random.default_rng(seed).integers(0, 256, (rows, cols, size), np.uint8)
    arena = Arena(rows, cols, 1024, 1024 + size)
    arena.memory[:] = to_lanes(memory, ranges, spare_lanes(arena), dead=0).reshape(-1)
    row, col = seed % rows, seed % cols
    for s in ranges:
        width = NUMPY_TYPE[s.element].itemsize
        offsets = [byte_offset(arena, row, col, 1024 + byte, width) for byte in range(s.start, s.end)]
        np.testing.assert_array_equal(arena.memory[offsets], memory[row, col, s.start : s.end])


@pytest.fixture
def accessed_ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the first byte and the end of all ranges that PEs read and write from now on."""
    ranges: list[tuple[int, int]] = []
    read, write, read_bytes = Pe.read, Pe.write, Pe.bytes

    def record(address: int, count: int, element_bytes: int) -> None:
        if count:
            ranges.append((int(address * element_bytes), int((address + count) * element_bytes)))

    def recording_read(pe: Pe, view: str, address: int, *shape: int) -> Any:
        record(address, int(np.prod(shape)), ELEMENT_BYTES[pe.types[view]])
        return read(pe, view, address, *shape)

    def recording_write(pe: Pe, view: str, address: int, values: Any) -> None:
        record(address, values.size, ELEMENT_BYTES[pe.types[view]])
        write(pe, view, address, values)

    def recording_bytes(pe: Pe, address: int, count: int) -> Any:
        record(address, count, 1)
        return read_bytes(pe, address, count)

    for name, recording_method in (("read", recording_read), ("write", recording_write), ("bytes", recording_bytes)):
        monkeypatch.setattr(Pe, name, recording_method)
    return ranges


@pytest.mark.parametrize("kernel", SIZES)
def test_oracle_accesses_only_the_extents_of_its_record(kernel: str, accessed_ranges: list[tuple[int, int]]) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        size = {name: int(rng.choice(PRIMES)) for name in SIZES[kernel]}
        case = make_case(kernel, shape_of(kernel, size, 2, 3, rng), 2, 3, (0, 2), ("float16", "float32"), rng)
        accessed_ranges.clear()
        run_oracle(case)
        buffers = [(buffer.start, buffer.end) for buffer in case.buffers.values()]
        beyond = [t for t in accessed_ranges if not any(start <= t[0] and t[1] <= end for start, end in buffers)]
        assert beyond == []


REPLACING = [
    (kernel.name, operand.over, operand.name) for kernel in KERNELS for operand in kernel.operands if operand.over
]


def output_in_place(case: Case, source: str, target: str) -> np.ndarray:
    """Return the kernel's output if it is stored at the address of an operand.

    The lanes of both do not occupy the same bytes.
    """
    cols, start = case.memory.shape[1], case.buffers[source].start
    separate = case.buffers[target]
    moved = ByteRange(start, start + separate.end - separate.start, separate.element)
    blocked, a = to_lanes(case.memory, list(case.buffers.values())), case.a.copy()
    a[2], a[kernel_named(case.kernel).index[target]] = lanes_of(cols)[0], moved.address
    types = (case.types[0], case.types[0], case.types[1], "float32", "uint8")
    views = (*(view(blocked, element, cols) for element in types), case.ctl)
    compiled = compiled_kernel(case.kernel)
    compiled.serial(*(views[i] for i in compiled.takes), a)
    others = [byte_range for name, byte_range in case.buffers.items() if name not in (source, target)]
    return moved.values(from_lanes(blocked, [*others, moved], cols))


@pytest.mark.parametrize(("kernel", "source", "target"), REPLACING)
def test_output_in_place_of_an_operand_equals_separate_output(kernel: str, source: str, target: str) -> None:
    assert np.dtype(STORAGE[COMMON_TYPES[0]]).itemsize < np.dtype(STORAGE[COMMON_TYPES[1]]).itemsize
    for seed in range(6):
        rng = np.random.default_rng(seed)
        size = {name: int(rng.integers(2, 6)) for name in SIZES[kernel]}
        case = make_case(kernel, shape_of(kernel, size, 2, 5, rng), 2, 5, (0, 2), COMMON_TYPES, rng)
        separate = case.values(target, run_kernel(case, compiled_kernel(kernel).serial))
        np.testing.assert_array_equal(output_in_place(case, source, target), separate)


CODED = ["matmul_int8", "matmul_fp8", "matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks"]
PRODUCTS = ["matmul", "matmul_act", "gemv", *CODED]
EXPERTS = ["expert_in", "expert_out_quantised", "expert_in_mxfp4", "expert_out_fp8_blocks"]
OTHERS = ["attention_scores", "attention_values", "argmax_fold"]
COLUMNS = [(16, 0), (19, 0), (31, 1), (5, 2)]
"""Number of columns, and a seed. The number of spare lanes is the seed modulo 3."""


def run_at_page_ends() -> None:
    """Run kernels on memory that ends, or begins, next to an inaccessible page."""
    exchange = test_transfers.test_exchange_equals_its_messages.hypothesis.inner_test
    without_guards = helpers.to_lanes
    helpers.GUARD_BYTES = 0
    for at_end in (True, False):

        def placed(*arguments: object, at_end: bool = at_end) -> helpers.Array:
            return between_pages(without_guards(*arguments), at_end=at_end)

        helpers.to_lanes = messages.to_lanes = placed
        for cols, seed in COLUMNS:
            for kernel in (*PRODUCTS, *EXPERTS, *OTHERS):
                for shift, tokens in (
                    (0, 1),
                    (0, 3),
                    (3, 1),
                    (3, 3),
                    (6, 3),
                ):  # each seed gives another order of buffers
                    size = {name: {"M": tokens, "K": 5, "N": 7}.get(name, 2) for name in SIZES[kernel]}
                    rng = np.random.default_rng(seed + shift)
                    shape = shape_of(kernel, size, 1, cols, rng)
                    case = make_case(kernel, shape, 1, cols, (0, 1), ("float32", "float32"), rng)
                    run_kernel(case, compiled_kernel(kernel).serial, spare=(seed + shift) % 3)
            for by_column in (0, 1):
                options = {"apart": 1, "by_column": by_column}
                messages.check_lines("along_columns", "serial", "float16", 5, cols, 18, options, seed)
            messages.check_lines("along_rows", "serial", "float16", 5, cols, 18, options, seed)
            for axis in ("rows", "columns"):
                exchange("serial", "float16", axis, 3, cols, 5, seed)
            in_place = test_line_sums.test_messages_along_columns_in_place.hypothesis.inner_test
            in_place("serial", "float16", 5, cols, 18, seed)
        test_line_sums.test_sums_in_place_equal_their_messages("serial", "float16", 19, 21)
        test_line_sums.test_sums_along_rows_that_are_transposed("serial", "float16", messages.ADD)


def exit_status(code: str) -> int:
    """Return the exit status of a process that runs ``code``."""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONFAULTHANDLER": "1"}
    return subprocess.run([sys.executable, "-c", code], env=os.environ | paths, check=False).returncode


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="interpreted kernels index arrays")
def test_kernels_in_vectors_stay_within_their_arrays() -> None:
    assert exit_status("from tests.kernels.test_layout import run_at_page_ends; run_at_page_ends()") == 0
