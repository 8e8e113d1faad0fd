"""Small operations on the vectors of one PE: sums, scaling, rounding and copies."""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, act, f32, numbers, wgt

ELEMENTWISE: Final = (
    Kernel(
        name="residual_add",
        operands=(act("x", "n"), acc("addend", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.convert) + c.vector(n, c.act),
    ),
    Kernel(
        name="add",
        operands=(act("x", "n"), act("addend", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.act),
    ),
    Kernel(
        name="add_bias",
        operands=(acc("x", "M n"), wgt("bias", "n"), *numbers("M n")),
        work="M n",
        cycles=lambda c, M, n: c.loop + c.rows(M, n, c.acc),
    ),
    Kernel(
        name="scale",
        operands=(acc("x", "n"), *numbers("n factor_pico")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.acc),
    ),
    Kernel(
        name="store",
        operands=(act("out", "n", output=True, over="x"), acc("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.convert),
    ),
    Kernel(
        name="store_part",
        operands=(
            act("out", "M n", output=True),
            acc("x", lambda M, n, stride: (M - 1) * stride + n),
            *numbers("M n stride"),
        ),
        work="M n",
        cycles=lambda c, M, n: M * (c.loop + c.vector(n, c.convert)),
    ),
    Kernel(
        name="clear",
        operands=(act("out", "n", output=True), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.act),
    ),
    Kernel(
        name="copy",
        operands=(act("out", "n", output=True), act("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.act),
    ),
    Kernel(
        name="copy_statistics",
        operands=(f32("out", "n", output=True), f32("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.f32),
    ),
    Kernel(
        name="add_statistics",
        operands=(f32("x", "n"), f32("addend", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.f32),
    ),
    Kernel(
        name="store_statistics",
        operands=(act("out", "n", output=True), f32("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.convert),
    ),
    Kernel(
        name="load_statistics",
        operands=(f32("out", "n", output=True), act("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.convert),
    ),
    Kernel(
        name="copy_weights",
        operands=(wgt("out", "n", output=True), wgt("x", "n"), *numbers("n")),
        work="n",
        cycles=lambda c, n: c.vector(n, c.act),
    ),
    Kernel(
        name="soft_cap",
        operands=(acc("x", "n"), *numbers("n scale_pico cap_pico")),
        work="n",
        operation_ps=600,
        cycles=lambda c, n: 2 * c.vector(n, c.acc) + n * c.function,
    ),
)
