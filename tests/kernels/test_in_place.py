"""Kernels whose output may overwrite an operand give the same result there as elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.helpers import (
    COMMON_TYPES,
    STORAGE,
    ByteRange,
    Case,
    from_lanes,
    lanes_of,
    make_case,
    run_kernel,
    to_lanes,
    view,
)
from tests.kernels.shapes import SIZES, shape_of
from wse.program.isa.instructions import KERNELS, kernel_named
from wse_kernels.library import compiled_kernel

REPLACING = [
    (kernel.name, operand.over, operand.name) for kernel in KERNELS for operand in kernel.operands if operand.over
]


def made_in_place(case: Case, source: str, target: str) -> np.ndarray:
    """Return the kernel's output if it is stored at the address of an operand.

    The lanes of both do not occupy the same bytes.
    """
    cols, start = case.memory.shape[1], case.buffers[source].start
    made = case.buffers[target]
    moved = ByteRange(start, start + made.end - made.start, made.element)
    blocked, a = to_lanes(case.memory, list(case.buffers.values())), case.a.copy()
    a[2], a[kernel_named(case.kernel).index[target]] = lanes_of(cols)[0], moved.address
    types = (case.types[0], case.types[0], case.types[1], "float32", "uint8")
    views = (*(view(blocked, element, cols) for element in types), case.ctl)
    compiled = compiled_kernel(case.kernel)
    compiled.serial(*(views[i] for i in compiled.takes), a)
    others = [stretch for name, stretch in case.buffers.items() if name not in (source, target)]
    return moved.values(from_lanes(blocked, [*others, moved], cols))


@pytest.mark.parametrize(("kernel", "source", "target"), REPLACING)
def test_what_is_made_in_the_place_of_an_operand_is_what_is_made_apart(kernel: str, source: str, target: str) -> None:
    assert np.dtype(STORAGE[COMMON_TYPES[0]]).itemsize < np.dtype(STORAGE[COMMON_TYPES[1]]).itemsize
    for seed in range(6):
        rng = np.random.default_rng(seed)
        size = {name: int(rng.integers(2, 6)) for name in SIZES[kernel]}
        case = make_case(kernel, shape_of(kernel, size, 2, 5, rng), 2, 5, (0, 2), COMMON_TYPES, rng)
        apart = case.values(target, run_kernel(case, compiled_kernel(kernel).serial))
        np.testing.assert_array_equal(made_in_place(case, source, target), apart)
