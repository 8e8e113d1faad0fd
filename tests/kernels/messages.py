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
"""Half is narrower than a word; the others are moved by the tests of logits, and here where nothing is compiled."""
HALVES = slow_but(["float16", "bfloat16"], "float16") if JIT else ELEMENTS
"""Those of sums in vectors, which are compiled to other instructions for each."""
SECOND_LOOKS = ("bfloat16", "serial"), ("float16", "parallel")
IN_VECTORS = (
    [("float16", "serial"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SECOND_LOOKS)]
    if JIT
    else [(element, "serial") for element in ELEMENTS]
)
"""The same with the build of each: the loop in which builds differ is one for all elements."""

REPLACE, ADD, MAX, ARGMAX, MULTICAST, COPY = 0, 1, 2, 3, 4, 5


def filled(
    rng: np.random.Generator, rows: int, cols: int, sizes: list[int], element: str
) -> tuple[Array, list[ByteRange]]:
    """Return PE memory with one buffer of ``element`` for each size, and the ranges of bytes."""
    stretches, size = lay_out([(n, element) for n in sizes])
    memory = np.zeros((rows, cols, size), np.uint8)
    for stretch, n in zip(stretches, sizes, strict=True):
        memory[..., stretch.start : stretch.end] = (
            numbers(rng, (rows, cols, n)).astype(NUMPY_TYPE[element]).view(np.uint8)
        )
    return memory, stretches


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


def random_stretches(rng: np.random.Generator, messages: Array, n: int) -> Array:
    """Return first element and number of elements of each message; all elements for pairs."""
    first = rng.integers(0, n, len(messages))
    stretches = np.stack([first, rng.integers(0, n - first + 1)], axis=1)
    stretches[messages[:, 2] == ARGMAX] = 0, n
    return stretches.astype(np.int32)


def whole_words(messages: Array, n: int) -> Array:
    """Messages that each send all ``n`` elements."""
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
    """Compare a kernel, which gets the messages or ``tables``, with the oracle that executes messages one by one.

    The oracle gets nonsense for the blocks of a row.
    """
    pes, stretches = memory
    want, cols = pes.copy(), pes.shape[1]
    getattr(oracle, line)(want, element, *messages, np.where(np.arange(len(a)) == 2, -1, a))
    blocked = to_lanes(pes, stretches, spare)
    function(view(blocked, element, cols, spare), *(messages if tables is None else tables), a)
    np.testing.assert_array_equal(from_lanes(blocked, stretches, cols, spare), want)


def check_lines(
    name: str, build: str, element: str, rows: int, cols: int, n: int, options: dict[str, Any], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    memory = filled(rng, rows, cols, [n, n], element)
    stretches = memory[1]
    length, lines = (cols, rows) if name == "along_rows" else (rows, cols)
    messages, first = random_messages(rng, length, n)
    messages = np.concatenate([messages, random_stretches(rng, messages, n)], axis=1)
    variant = rng.integers(0, 3, lines).astype(np.int32)
    source, target = stretches[0].address, stretches[options["apart"]].address
    per_row = lanes_of(cols)[0]
    first_row, rows_used = options.get("used", (0, rows))
    a = np.array([first_row, rows_used, per_row, source, target, n, options["by_column"], cols, 0], np.int64)
    function = getattr(compiled_kernel(name), build)
    check_messages(name, function, memory, element, (messages, first, variant), a, seed % 3)
