"""Helpers of kernel tests, which run a kernel and its oracle on the same memory.

The conversion between bytes of PEs and lanes of blocks is written independently of the emulator's
arena.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tiers import slow_but

from wse.program.isa.instructions import kernel_named
from wse_kernels.library import compiled_kernel
from wse_kernels.operands.group import parameters_of
from wse_kernels.oracle import activation, delta_rule, elementwise, latent, linear, rotary, router, vocabulary
from wse_kernels.oracle.attention import kv_cache, normalisation, ring, softmax
from wse_kernels.oracle.experts import pairs, products
from wse_kernels.oracle.memory import Pe
from wse_kernels.oracle.norm import layer_norm, rms_norm

Array = npt.NDArray[Any]

JIT = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
"""True if kernels are compiled, False if they are interpreted."""

EXAMPLES = 8
"""Hypothesis examples per test."""

STORAGE = {"float32": np.float32, "float16": np.uint16, "bfloat16": np.int16, "uint8": np.uint8}
NUMPY_TYPE = {
    "float32": np.dtype("f4"),
    "float16": np.dtype("f2"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "uint8": np.dtype("u1"),
}
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
TINY = {"float32": 2.0**-146, "float16": 2.0**-24, "bfloat16": 2.0**-130}
MAX_LANES = 128
UNTOUCHED = 0x11
"""Byte between buffers and in lanes without a PE: a small finite number in every element type."""

ORACLE_FILES = (
    *(kv_cache, normalisation, ring, softmax),
    *(pairs, products),
    *(activation, delta_rule, elementwise, latent, linear, layer_norm, rms_norm, rotary, router, vocabulary),
)
ORACLES = {name: function for module in ORACLE_FILES for name, function in vars(module).items()}

OPERAND_COUNT = 25
GUARD_BYTES = 8


@dataclass(frozen=True)
class ByteRange:
    """Range of bytes, ``start`` to ``end`` - 1, of every PE that contains elements of one type."""

    start: int
    end: int
    element: str

    @property
    def address(self) -> int:
        return self.start // NUMPY_TYPE[self.element].itemsize

    def values(self, memory: Array) -> Array:
        """Return the elements as float64 ``[rows, cols, n]``."""
        return memory[..., self.start : self.end].copy().view(NUMPY_TYPE[self.element]).astype(np.float64)


def lanes_of(cols: int, spare: int = 0) -> tuple[int, int]:
    """Return the number of blocks per mesh row, and of lanes per block.

    There are as few blocks as 128 lanes allow. ``spare`` lanes are added to each block.
    """
    blocks = -(-cols // MAX_LANES)
    return blocks, -(-cols // blocks) + spare


def lay_out(sizes: list[tuple[int, str]]) -> tuple[list[ByteRange], int]:
    """Return aligned ranges of bytes for buffers, and the total number of bytes.

    Each buffer is given as (number of elements, element type). Ranges are aligned to 4 bytes and
    followed by guard bytes.
    """
    ranges, top = [], GUARD_BYTES
    for count, element in sizes:
        end = top + count * NUMPY_TYPE[element].itemsize
        ranges.append(ByteRange(top, end, element))
        top = -(-end // 4) * 4 + GUARD_BYTES
    return ranges, top


def to_lanes(memory: Array, ranges: list[ByteRange], spare: int = 0, dead: int = UNTOUCHED) -> Array:
    """Convert PE bytes to blocks, ``uint8[blocks, bytes * lanes]``, as kernels expect them.

    The elements at one address of all PEs of a block become adjacent.

    Args:
        memory: PE bytes, ``uint8[rows, cols, bytes]``.
        ranges: Ranges of bytes with elements of known types.
        spare: Number of lanes per block without a PE.
        dead: Value of the bytes of these lanes.
    """
    rows, cols, size = memory.shape
    per_row, lanes = lanes_of(cols, spare)
    out = np.full((rows * per_row, size * lanes), dead, np.uint8)
    for pe_bytes, lane_bytes in _elements(memory, out, ranges, spare):
        lane_bytes[:] = pe_bytes
    return out


def from_lanes(blocked: Array, ranges: list[ByteRange], cols: int, spare: int = 0) -> Array:
    """Convert blocks back to PE bytes, ``uint8[rows, cols, bytes]``: inverse of ``to_lanes``."""
    per_row, lanes = lanes_of(cols, spare)
    rows, size = len(blocked) // per_row, blocked.shape[1] // lanes
    memory = np.zeros((rows, cols, size), np.uint8)
    for pe_bytes, lane_bytes in _elements(memory, blocked, ranges, spare):
        pe_bytes[:] = lane_bytes
    return memory


def _elements(memory: Array, blocked: Array, ranges: list[ByteRange], spare: int) -> Iterator[tuple[Array, Array]]:
    """Yield the elements of each range of each PE twice: as a view of its memory, and as a view of its lane."""
    rows, cols, size = memory.shape
    per_row, lanes = lanes_of(cols, spare)
    for byte_range in _cover(ranges, size):
        width = NUMPY_TYPE[byte_range.element].itemsize
        for row, col in np.ndindex(rows, cols):
            block = blocked[row * per_row + col // lanes, byte_range.start * lanes : byte_range.end * lanes]
            pe_bytes = memory[row, col, byte_range.start : byte_range.end].reshape(-1, width)
            yield pe_bytes, block.reshape(-1, lanes, width)[:, col % lanes]


def _cover(ranges: list[ByteRange], size: int) -> list[ByteRange]:
    """Return the ranges and the gaps between them, as float32 where whole words fit."""
    covered, top = [], 0
    for byte_range in [*sorted(ranges, key=lambda s: s.start), ByteRange(size, size, "float32")]:
        aligned = min(-(-top // 4) * 4, byte_range.start)
        covered += [ByteRange(top, aligned, "uint8"), ByteRange(aligned, byte_range.start, "float32"), byte_range]
        top = byte_range.end
    return [s for s in covered if s.end > s.start]


def view(blocked: Array, element: str, cols: int, spare: int = 0) -> Array:
    """Return a view ``[block, element, lane]`` in the storage type of ``element``."""
    return blocked.view(STORAGE[element]).reshape(len(blocked), -1, lanes_of(cols, spare)[1])


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return random values: mostly normal, some zeros of both signs, some integers that tie."""
    values = rng.normal(size=shape)
    kind = rng.integers(0, 8, size=shape)
    values = np.where(kind == 0, rng.integers(-4, 5, size=shape), values)
    return np.where(kind == 1, np.copysign(0.0, values), values)


@dataclass(frozen=True)
class Shape:
    """Sizes and operands of one kernel call in a test.

    Attributes:
        counts: Number of elements of each buffer.
        plain: Operands that are not addresses.
        contents: Contents of buffers that must not be arbitrary numbers.
        ctl: Counters of each row.
    """

    counts: dict[str, int]
    plain: dict[str, int]
    contents: dict[str, Array]
    ctl: Array


@dataclass(frozen=True, repr=False)
class Case:
    """A kernel call in a test: its operands, and the memory of the PEs before it."""

    kernel: str
    memory: Array
    buffers: dict[str, ByteRange]
    types: tuple[str, str]
    ctl: Array
    a: Array

    def values(self, name: str, memory: Array | None = None) -> Array:
        """Return a buffer as float64 ``[rows, cols, n]``, from ``memory`` or from the memory before the call."""
        return self.buffers[name].values(self.memory if memory is None else memory)


def make_case(
    kernel: str,
    shape: Shape,
    rows: int,
    cols: int,
    rows_used: tuple[int, int],
    types: tuple[str, str],
    rng: np.random.Generator,
) -> Case:
    """Return a case with its buffers in random order in the SRAM of ``rows`` x ``cols`` PEs.

    Args:
        kernel, shape: Name of the kernel; sizes and operands.
        rows, cols: PEs of the region.
        rows_used: First row, and number of rows, that the kernel is called for.
        types: Element types of activations (and weights) and of accumulators.
        rng: Source of random numbers.
    """
    types_by_view = {"act": types[0], "wgt": types[0], "acc": types[1], "f32": "float32", "raw": "uint8"}
    named = [(name, types_by_view[view]) for name, view in kernel_named(kernel).views.items() if view]
    order = [named[i] for i in rng.permutation(len(named))]
    ranges, size = lay_out([(shape.counts[name], element) for name, element in order])
    buffers = {name: byte_range for (name, _), byte_range in zip(order, ranges, strict=True)}
    memory = np.full((rows, cols, size), UNTOUCHED, np.uint8)
    for name, byte_range in buffers.items():
        given = shape.contents.get(name)
        values = numbers(rng, (rows, cols, shape.counts[name])) if given is None else given
        stored = values.astype(NUMPY_TYPE[byte_range.element], order="C")
        memory[..., byte_range.start : byte_range.end] = stored.view(np.uint8)
    a = np.zeros(OPERAND_COUNT, np.int64)
    a[:2] = rows_used
    for i, (name, kind) in enumerate(kernel_named(kernel).views.items()):
        a[3 + i] = buffers[name].address if kind else shape.plain[name]
    return Case(kernel, memory, buffers, types, shape.ctl, a)


def run_kernel(case: Case, function: Callable[..., None], spare: int = 0) -> Array:
    """Return the PE memory after ``function`` has run.

    Each block has ``spare`` lanes without a PE.
    """
    cols = case.memory.shape[1]
    ranges = list(case.buffers.values())
    blocked = to_lanes(case.memory, ranges, spare)
    a = case.a.copy()
    a[2] = lanes_of(cols)[0]
    types = (case.types[0], case.types[0], case.types[1], "float32", "uint8")
    with np.errstate(over="ignore", under="ignore"):
        memory = (*(view(blocked, element, cols, spare) for element in types), case.ctl)
        function(*(memory[i] for i in compiled_kernel(case.kernel).takes), a)
    return from_lanes(blocked, ranges, cols, spare)


def run_oracle(case: Case) -> Array:
    """Return the PE memory after the oracle has run on the PEs of the case's rows."""
    memory, oracle = case.memory.copy(), ORACLES[case.kernel]
    types = {"act": case.types[0], "wgt": case.types[0], "acc": case.types[1], "f32": "float32"}
    first_row, rows, _, *operands = case.a.tolist()
    words, arguments = iter(operands), {}
    for name, group, fields in parameters_of(oracle):
        values = [next(words) for _ in fields]
        arguments[name] = values[0] if group is None else group(*values)
    if "ctl" in signature(oracle).parameters:
        arguments["ctl"] = case.ctl
    for row in range(first_row, first_row + rows):
        for col in range(memory.shape[1]):
            oracle(Pe(memory[row, col], row, col, types), **arguments)
    return memory


def differing(case: Case, got: Array, want: Array, allowed: dict[str, Array]) -> list[str]:
    """Return a description of each buffer that differs between two memories.

    Buffers are compared bit for bit, or within the ``allowed`` absolute error. Scratch buffers are
    not compared.
    """
    scratch = {operand.name for operand in kernel_named(case.kernel).operands if operand.scratch}
    wrong = []
    left, right = got.copy(), want.copy()
    for name, byte_range in case.buffers.items():
        mine, theirs = left[..., byte_range.start : byte_range.end], right[..., byte_range.start : byte_range.end]
        if name in allowed:
            values, expected = byte_range.values(got), byte_range.values(want)
            excess = np.abs(values - expected) - allowed[name].reshape(values.shape)
            if not (excess <= 0).all():
                at = np.unravel_index(np.argmax(excess), excess.shape)
                wrong.append(f"{name}{list(map(int, at))}: {values[at]} instead of {expected[at]}")
        elif name not in scratch and not np.array_equal(mine, theirs):
            wrong.append(f"{name}: {np.count_nonzero(mine != theirs)} bytes")
        mine[:] = theirs[:] = 0
    return wrong if np.array_equal(left, right) else [*wrong, "bytes between buffers"]


COMMON_TYPES = ("float16", "float32")
TYPES = [("float32", "float32")] if JIT else [("float16", "float16"), ("bfloat16", "float32")]
"""Types of activations (and weights) and of accumulators.

A kernel is compiled for each of them. The normal run therefore uses float32, for which the tests of
logits compile most kernels anyway. When kernels are interpreted, other types cost nothing, and
16-bit types reveal elements that were not widened or narrowed.
"""

BUILDS = slow_but(["serial", "parallel"], "serial") if JIT else ["serial"]
"""Builds of a kernel, for one core and for all cores.

They differ only in the loop over blocks, which is the same for all kernels.
"""


def types_of(kernel: str) -> list[tuple[str, str]]:
    """Return those of ``TYPES`` that differ for a kernel, given the views that it uses."""
    views = {view for _, view in kernel_named(kernel).views.items()}
    seen: dict[tuple[str | None, str | None], tuple[str, str]] = {}
    for types in TYPES:
        seen.setdefault((types[0] if views & {"act", "wgt"} else None, types[1] if "acc" in views else None), types)
    return list(seen.values())
