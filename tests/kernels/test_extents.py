"""Oracles touch no more of a PE's memory than the record of their kernel allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.helpers import make_case, run_oracle
from tests.kernels.shapes import PRIMES, SIZES, shape_of
from wse_kernels.oracle.memory import ELEMENT_BYTES, Pe


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the first byte and the end of all ranges that PEs read and write from now on."""
    stretches: list[tuple[int, int]] = []
    read, write, of_bytes = Pe.read, Pe.write, Pe.bytes

    def note(address: int, count: int, element_bytes: int) -> None:
        if count:
            stretches.append((int(address * element_bytes), int((address + count) * element_bytes)))

    def noted_read(pe: Pe, view: str, address: int, *shape: int) -> Any:
        note(address, int(np.prod(shape)), ELEMENT_BYTES[pe.types[view]])
        return read(pe, view, address, *shape)

    def noted_write(pe: Pe, view: str, address: int, values: Any) -> None:
        note(address, values.size, ELEMENT_BYTES[pe.types[view]])
        write(pe, view, address, values)

    def noted_bytes(pe: Pe, address: int, count: int) -> Any:
        note(address, count, 1)
        return of_bytes(pe, address, count)

    for name, noted in (("read", noted_read), ("write", noted_write), ("bytes", noted_bytes)):
        monkeypatch.setattr(Pe, name, noted)
    return stretches


@pytest.mark.parametrize("kernel", SIZES)
def test_an_oracle_touches_nothing_beyond_the_extents_of_the_record(
    kernel: str, touched: list[tuple[int, int]]
) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        size = {name: int(rng.choice(PRIMES)) for name in SIZES[kernel]}
        case = make_case(kernel, shape_of(kernel, size, 2, 3, rng), 2, 3, (0, 2), ("float16", "float32"), rng)
        touched.clear()
        run_oracle(case)
        buffers = [(buffer.start, buffer.end) for buffer in case.buffers.values()]
        beyond = [t for t in touched if not any(start <= t[0] and t[1] <= end for start, end in buffers)]
        assert beyond == []
