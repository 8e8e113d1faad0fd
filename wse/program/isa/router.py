"""Expert router: scores of E experts for each of M tokens, and the selection of A experts.

Every PE computes the whole router.
"""

from __future__ import annotations

import math
from typing import Final

from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import acc, f32, numbers
from wse.program.isa.pe_costs import PeCosts
from wse_mappings.rounding import ceil_div


def _scores_cycles(c: PeCosts, M: int, E: int, sigmoid: int) -> float:
    """Return how many cycles it takes to compute router scores of E experts for each of M tokens.

    With sigmoid, each score needs exp and a division. With softmax, each score needs exp only, plus
    vector operations for the maximum, the difference, the sum and the scale.

    Args:
        c: Costs of operations on the PE.
        M, E: Number of tokens and experts.
        sigmoid: 1 for sigmoid, 0 for softmax.
    """
    exps, passes = E * c.function, c.vector(E, c.f32)
    if sigmoid:
        return M * (c.loop + 2 * exps + passes)
    return M * (c.loop + c.vector(E, c.max_f32) + exps + c.function + 3 * passes)


def _limit_cycles(c: PeCosts, M: int, E: int, groups: int, chosen_groups: int) -> float:
    """Return how many cycles it takes to exclude all experts outside the selected expert groups.

    The operations are two maxima in each group, one maximum over all groups for each selected
    group, and a vector operation that masks the other experts.

    Args:
        c: Costs of operations on the PE.
        M, E: Number of tokens and experts.
        groups, chosen_groups: Number of groups into which the experts are divided, and number of
            groups selected per token.
    """
    maxima = groups * (c.loop + 2 * c.vector(ceil_div(E, groups), c.max_f32))
    return M * (maxima + chosen_groups * (c.loop + c.vector(groups, c.max_f32)) + c.vector(E, c.f32))


def blocks_of_outputs(E: int) -> int:
    """Return the number of blocks into which E router outputs are divided: about sqrt(E).

    Comparing the maxima of blocks first makes it faster to find the largest output.
    """
    return math.isqrt(E)


def _choose_cycles(c: PeCosts, M: int, E: int, A: int, normalised: int) -> float:
    """Return how many cycles it takes to select A experts per token and scale their weights.

    The experts are divided into blocks if that needs fewer cycles.

    Args:
        c: Costs of operations on the PE.
        M, E, A: Number of tokens, experts, and experts per token.
        normalised: 1 if the weights are divided by their sum, else 0.
    """
    division = c.vector(A, c.f32) + c.function if normalised else 0.0
    choices = min(_choices_cycles(c, E, A, blocks) for blocks in (1, blocks_of_outputs(E)))
    return M * (choices + division + c.vector(A, c.f32))


def _choices_cycles(c: PeCosts, E: int, A: int, blocks: int) -> float:
    """Return how many cycles it takes to select the A best of E experts, one at a time.

    The experts are divided into ``blocks`` blocks. The maximum of each block is computed once.
    After each selection except the last, the maximum of the block with the selected expert is
    recomputed. With several blocks, a selection first finds the best block and then the position in
    that block.

    Args:
        c: Costs of operations on the PE.
        E, A: Number of experts, and number of experts to select.
        blocks: Number of blocks; 1 if the experts are not divided.
    """
    size = ceil_div(E, blocks)
    maxima = (blocks + A - 1) * c.vector(size, c.max_f32)
    block = c.vector(blocks, c.max_f32) + c.vector(blocks, c.f32) if blocks > 1 else 0.0
    return (blocks + A) * c.loop + maxima + A * (block + c.vector(size, c.f32))


def _mix_cycles(c: PeCosts, M: int, E: int, A: int) -> float:
    """Return how many cycles a sparse mixer takes for the weights of A experts per token.

    For each selected expert, it finds the maximum of E outputs, compares all of them with it, and
    adds up their exponentials.

    Args:
        c: Costs of operations on the PE.
        M, E, A: Number of tokens, experts, and experts per token.
    """
    return M * (c.vector(E, c.f32) + A * (c.loop + c.vector(E, c.max_f32) + 4 * c.vector(E, c.f32) + E * c.function))


ROUTER: Final = (
    Kernel(
        name="router_place",
        operands=(acc("x", "M n"), acc("out", "M E", output=True), *numbers("M n E first columns zeros")),
        work="M E",
        operation_ps=600,
        cycles=lambda c, M, n, E, zeros: zeros * c.vector(M * E, c.acc) + M * (c.loop + c.vector(n, c.acc)),
    ),
    Kernel(
        name="router_scores",
        operands=(acc("x", "M E"), f32("out", "M E", output=True), *numbers("M E sigmoid")),
        work="M E",
        operation_ps=700,
        cycles=_scores_cycles,
    ),
    Kernel(
        name="router_correct",
        operands=(f32("x", "M E"), f32("correction", "E"), f32("out", "M E", output=True), *numbers("M E")),
        work="M E",
        cycles=lambda c, M, E: M * (c.loop + c.vector(E, c.f32)),
    ),
    Kernel(
        name="router_limit",
        operands=(
            f32("x", "M E"),
            f32("out", "M E", output=True, over="x"),
            *numbers("M E groups chosen_groups"),
            f32("group_scores", "groups", output=True),
        ),
        work="M E",
        operation_ps=2500,
        cycles=_limit_cycles,
    ),
    Kernel(
        name="router_mix",
        operands=(acc("x", "M E"), f32("out", "M E", output=True), *numbers("M E A tolerance_pico")),
        work="M E A",
        operation_ps=1800,
        cycles=_mix_cycles,
    ),
    Kernel(
        name="router_choose",
        operands=(
            f32("choice", "M E"),
            f32("scores", "M E"),
            f32("ids", "M A", output=True),
            f32("weights", "M A", output=True),
            f32("maxima", blocks_of_outputs, output=True),
            *numbers("M E A normalised scale_pico"),
        ),
        work="M E A",
        operation_ps=1800,
        cycles=_choose_cycles,
    ),
    Kernel(
        name="chosen_softmax",
        operands=(f32("ids", "M A"), f32("weights", "M A"), *numbers("M A scale_pico")),
        work="M A",
        operation_ps=600,
        cycles=lambda c, M, A: M * (c.loop + (A + 1) * c.function + 3 * c.vector(A, c.f32)),
    ),
    Kernel(
        name="scale_choice",
        operands=(f32("ids", "M A"), f32("weights", "M A"), f32("scales", "E"), *numbers("M E A")),
        work="M A",
        cycles=lambda c, M, A: M * A * (c.loop + 2 * c.vector(1, c.f32)),
    ),
)
