"""Positions in queries and keys: rotation of the first R features of each head, and scaling.

M is the number of tokens, F is the number of features per head, and Hq and Hk are the numbers of
query and KV heads.
"""

from __future__ import annotations

from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import PICO, acc, act, f32, numbers
from wse.program.isa.pe_costs import PeCosts


def _projection_elements(M: int, Hq: int, Hk: int, F: int) -> int:
    """Return the number of elements in the queries, keys and values of M tokens.

    Hq and Hk are the numbers of query and KV heads; F is the number of features per head.
    """
    return M * (Hq + 2 * Hk) * F


def _frequency_elements(M: int, R: int, turned: int) -> int:
    """Return the number of elements in operand ``frequency``, from which rotations are computed.

    Args:
        M: Number of tokens.
        R: Number of rotary dimensions per head.
        turned: 1 if the operand contains precomputed cosines and sines, M * R in total. 0 if it
            contains R / 2 frequencies.
    """
    return M * R if turned else R // 2


def _angles(c: PeCosts, R: int, multiplier_pico: int, turned: int = 0) -> float:
    """Return how many cycles it takes to compute the cosines and sines that rotate one token.

    Args:
        c: Costs of operations on the PE.
        R: Number of rotary dimensions per head.
        multiplier_pico: Factor of the cosines and sines, times 10^12. A factor of 1 costs nothing.
        turned: 1 if cosines and sines are precomputed, so that no cycles are needed; else 0.
    """
    if turned:
        return 0.0
    scaled = 0.0 if multiplier_pico == PICO else 2 * c.vector(R // 2, c.f32)
    return R // 2 * (2 * c.function) + scaled


def _rope_cycles(c: PeCosts, M: int, Hq: int, Hk: int, F: int, R: int, multiplier_pico: int, turned: int) -> float:
    """Return how many cycles ``rope`` takes if it is vectorised over the rotated pairs of a head.

    The kernel rotates queries and keys. It computes the cosines and sines, performs six vector
    operations per head, and rounds all queries, keys and values.

    Args:
        c: Costs of operations on the PE.
        M, Hq, Hk, F: Number of tokens, query heads, KV heads, and features per head.
        R: Number of rotary dimensions per head.
        multiplier_pico: Factor of the cosines and sines, times 10^12.
        turned: 1 if cosines and sines are precomputed, else 0.
    """
    heads = Hq + Hk
    rounding = c.vector((heads + Hk) * F, c.convert)
    return M * (c.loop + _angles(c, R, multiplier_pico, turned) + heads * 6 * c.vector(R // 2, c.acc) + rounding)


def _rope_cycles_over_heads(
    c: PeCosts, M: int, Hq: int, Hk: int, F: int, R: int, multiplier_pico: int, turned: int
) -> float:
    """Return how many cycles kernel ``rope`` takes if it is vectorised over heads.

    The kernel rotates queries and keys.

    Args:
        c: Costs of operations on the PE.
        M, Hq, Hk, F: Number of tokens, query heads, KV heads, and features per head.
        R: Number of rotary dimensions per head.
        multiplier_pico: Factor of the cosines and sines, times 10^12.
        turned: 1 if cosines and sines are precomputed, else 0.
    """
    rounding = c.vector((Hq + 2 * Hk) * F, c.convert)
    return M * (
        c.loop + _angles(c, R, multiplier_pico, turned) + R // 2 * 6 * c.strided_vector(Hq + Hk, c.acc) + rounding
    )


def _rotate_cycles_over_heads(c: PeCosts, M: int, H: int, R: int, multiplier_pico: int, turned: int) -> float:
    """Return how many cycles kernel ``rotate`` takes if it is vectorised over heads.

    The kernel applies the rotary position embedding to every head of a vector in place.

    Args:
        c: Costs of operations on the PE.
        M, H, R: Number of tokens, heads, and rotary dimensions per head.
        multiplier_pico: Factor of the cosines and sines, times 10^12.
        turned: 1 if cosines and sines are precomputed, else 0.
    """
    return M * (c.loop + _angles(c, R, multiplier_pico, turned) + R // 2 * 6 * c.strided_vector(H, c.act))


def _rotate_cycles(c: PeCosts, M: int, H: int, R: int, multiplier_pico: int, turned: int) -> float:
    """Return how many cycles ``rotate`` takes if it is vectorised over the rotated pairs of a head.

    The kernel applies the rotary position embedding to every head of a vector in place.

    Args:
        c: Costs of operations on the PE.
        M, H, R: Number of tokens, heads, and rotary dimensions per head.
        multiplier_pico: Factor of the cosines and sines, times 10^12.
        turned: 1 if cosines and sines are precomputed, else 0.
    """
    return M * (c.loop + _angles(c, R, multiplier_pico, turned) + H * 6 * c.vector(R // 2, c.act))


ROTARY: Final = (
    Kernel(
        name="rope",
        operands=(
            acc("x", _projection_elements),
            f32("frequency", _frequency_elements),
            act("q", "M Hq F", output=True),
            act("k", "M Hk F", output=True),
            act("v", "M Hk F", output=True),
            *numbers("M Hq Hk F R multiplier_pico turned"),
        ),
        work="M Hq F",
        operation_ps=600,
        cycles=_rope_cycles,
        cycles_over_heads=_rope_cycles_over_heads,
        counters=True,
    ),
    Kernel(
        name="rotate",
        operands=(act("x", "M H F"), f32("frequency", _frequency_elements), *numbers("M H F R multiplier_pico turned")),
        work="M H F",
        operation_ps=450,
        cycles=_rotate_cycles,
        cycles_over_heads=_rotate_cycles_over_heads,
        counters=True,
    ),
    Kernel(
        name="rotary_turns",
        operands=(f32("frequency", lambda R: R // 2), f32("out", "M R", output=True), *numbers("M R multiplier_pico")),
        work="M R",
        operation_ps=5000,
        cycles=lambda c, M, R, multiplier_pico: M * (c.loop + _angles(c, R, multiplier_pico)),
        counters=True,
    ),
    Kernel(
        name="split_heads",
        operands=(
            acc("x", _projection_elements),
            act("q", "M Hq F", output=True),
            act("k", "M Hk F", output=True),
            act("v", "M Hk F", output=True),
            *numbers("M Hq Hk F"),
        ),
        work="M Hq F",
        cycles=lambda c, M, Hq, Hk, F: M * (c.loop + c.vector((Hq + 2 * Hk) * F, c.convert)),
    ),
    Kernel(
        name="scale_queries",
        operands=(act("x", "M n"), *numbers("M n coefficient_pico tokens first")),
        work="M n",
        cycles=lambda c, M, n: M * (c.loop + 2 * c.function + c.vector(n, c.act)),
        counters=True,
    ),
)
