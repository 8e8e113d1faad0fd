"""Random messages along lines, and the comparison of a transfer kernel with its oracle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiers import slow_but

from tests.kernels.helpers import (
    JIT,
    NUMPY_TYPE,
    Array,
    ByteRange,
    from_lanes,
    lanes_of,
    lay_out,
    numbers,
    to_lanes,
    view,
)
from wse_kernels.library import compiled_kernel
from wse_kernels.oracle import transfers as oracle

ELEMENTS = ["float16"] if JIT else ["float32", "float16", "bfloat16"]
"""Element types of messages. Compiled tests use float16, which is narrower than a word.

Tests of logits and interpreted tests use the other types.
"""
HALVES = slow_but(["float16", "bfloat16"], "float16") if JIT else ELEMENTS
"""Element types of sums in vectors. Each type is compiled to other instructions."""
SLOW_CASES = ("bfloat16", "serial"), ("float16", "parallel")
VECTOR_CASES = (
    [("float16", "serial"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW_CASES)]
    if JIT
    else [(element, "serial") for element in ELEMENTS]
)
"""Element types and builds of sums in vectors. Builds differ only in a loop that is the same for all types."""

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY = 0, 1, 2, 3, 4, 5


def filled(
    rng: np.random.Generator, rows: int, cols: int, sizes: list[int], element: str
) -> tuple[Array, list[ByteRange]]:
    """Return PE memory with one buffer of ``element`` for each size, and the ranges of bytes."""
    ranges, size = lay_out([(n, element) for n in sizes])
    memory = np.zeros((rows, cols, size), np.uint8)
    for byte_range, n in zip(ranges, sizes, strict=True):
        memory[..., byte_range.start : byte_range.end] = (
            numbers(rng, (rows, cols, n)).astype(NUMPY_TYPE[element]).view(np.uint8)
        )
    return memory, ranges


def random_messages(rng: np.random.Generator, length: int, n: int) -> tuple[Array, Array]:
    """Return three variants of up to six messages along a line.

    Messages of (value, index) pairs are included only if the number of elements is even.
    """
    count = rng.integers(0, 7, 3)
    first = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    arrivals = [arrival for arrival in range(7) if arrival != ARGMAX or n % 2 == 0]
    messages = rng.integers(0, length, (first[-1], 3)).astype(np.int32)
    messages[:, 2] = rng.choice(arrivals, first[-1])
    messages[messages[:, 2] == COPY, 1] = messages[messages[:, 2] == COPY, 0]
    return messages, first


def random_element_ranges(rng: np.random.Generator, messages: Array, n: int) -> Array:
    """Return first element and number of elements of each message; all elements for pairs."""
    first = rng.integers(0, n, len(messages))
    ranges = np.stack([first, rng.integers(0, n - first + 1)], axis=1)
    ranges[messages[:, 2] == ARGMAX] = 0, n
    return ranges.astype(np.int32)


def whole_words(messages: Array, n: int) -> Array:
    """Return messages that each send all ``n`` elements."""
    return np.concatenate([messages, np.tile([0, n], (len(messages), 1))], axis=1).astype(np.int32)


def check_messages(
    line: str,
    function: Callable[..., None],
    memory: tuple[Array, list[ByteRange]],
    element: str,
    messages: tuple[Array, ...],
    a: Array,
    spare: int,
    tables: tuple[Array, ...] | None = None,
) -> None:
    """Compare a kernel with the oracle that executes messages one by one.

    Args:
        line: Oracle, ``along_rows`` or ``along_columns``.
        function: The kernel.
        memory: PE memory and its ranges of bytes.
        element: Element type.
        messages: Messages, first message of each variant, and variant of each line.
        a: Operands. The oracle gets an invalid number of blocks per row, which it must ignore.
        spare: Lanes without a PE in each block.
        tables: Arguments of the kernel in place of ``messages``.
    """
    pes, ranges = memory
    want, cols = pes.copy(), pes.shape[1]
    getattr(oracle, line)(want, element, *messages, np.where(np.arange(len(a)) == 2, -1, a))
    blocked = to_lanes(pes, ranges, spare)
    function(view(blocked, element, cols, spare), *(messages if tables is None else tables), a)
    np.testing.assert_array_equal(from_lanes(blocked, ranges, cols, spare), want)


def check_lines(
    name: str, build: str, element: str, rows: int, cols: int, n: int, options: dict[str, Any], seed: int
) -> None:
    """Compare the kernel ``name`` with its oracle on random messages.

    The keys of ``options`` are ``apart`` (1 if source and target are two buffers), ``by_column`` (1 if the kernel
    divides its work by columns) and ``used`` (first row and number of rows of the call).
    """
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n, n], element)
    ranges = memory[1]
    length, lines = (cols, rows) if name == "along_rows" else (rows, cols)
    messages, first = random_messages(rng, length, n)
    messages = np.concatenate([messages, random_element_ranges(rng, messages, n)], axis=1)
    variant = rng.integers(0, 3, lines).astype(np.int32)
    source, target = ranges[0].address, ranges[options["apart"]].address
    per_row = lanes_of(cols)[0]
    first_row, rows_used = options.get("used", (0, rows))
    a = np.array([first_row, rows_used, per_row, source, target, n, options["by_column"], cols, 0], np.int64)
    function = getattr(compiled_kernel(name), build)
    check_messages(name, function, memory, element, (messages, first, variant), a, seed % 3)
