"""Mergeable norms: norms whose all-reduce can be merged with the all-reduce of the next products.

The rewrite `norm_scales` merges them. The steps of a norm compute sums, combine them in an
all-reduce, and scale the vectors. The products are the normalised vectors multiplied by matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wse.compiler.rewrites.steps import (
    address,
    count,
    in_place,
    is_line,
    kernel_of,
    live_range,
    runs,
    same_lines,
    touches,
    touches_elements,
)
from wse.compiler.symbolic import SymAddress, SymStep
from wse.program.isa.linear import LINEAR as PRODUCTS

_SUMS: Final = {"sum_squares": 1, "moments": 2}
"""Sums per token, by the kernel that computes them."""

_LINEAR: Final = frozenset(("redistribute_block", *(kernel.name for kernel in PRODUCTS)))
"""Kernels whose outputs are linear in ``x``, so that a token can be scaled afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeableNorm:
    """Steps of a norm, and of the matrix products that use its result, by their indices in a block.

    All attributes except ``parts`` are step indices. Several norms may share one all-reduce of
    their sums.

    Attributes:
        squares: Consecutive steps that compute the sums of squares of all norms that share the
            all-reduce.
        own_squares: Step among ``squares`` that computes the sums of this norm.
        reduce: All-reduce of the sums of all norms.
        scaling: Step that scales the vectors of this norm.
        other_scalings: Steps that scale the vectors of the other norms, before the products.
        products: All-reduce of the products.
        parts: (offset, width) of each product: its offset in the buffer of the products, in
            elements, and its elements per token.
        products_live: Steps in which the buffer of the products is in use.
        sums_live: Steps in which the buffer of the sums is in use.
    """

    squares: range
    own_squares: int
    reduce: int
    scaling: int
    other_scalings: tuple[int, ...]
    products: int
    parts: tuple[tuple[int, int], ...]
    products_live: range
    sums_live: range


def mergeable_norm(steps: Sequence[SymStep], scaling: int) -> MergeableNorm | None:
    """Return a norm if its all-reduce can be merged with that of the products after it; else None.

    A norm adds up squares on each PE, combines the sums in an all-reduce, and scales vectors. The
    matrix products of the scaled vectors have another all-reduce. Merging both saves one.

    Args:
        steps: Steps of a block.
        scaling: Index of the scaling step, which is the last step of a norm.

    Returns:
        The step indices of the norm and of the products; None if they cannot be merged.
    """
    scale, sums = steps[scaling], address(steps[scaling], "sums")
    reduce_index = next((i for i in reversed(range(scaling)) if is_line(steps[i])), -1)
    squares = _squares(steps, reduce_index, "sum_squares" if runs(scale, "rms_scale") else "moments")
    own_squares = next((i for i in squares if address(steps[i], "sums") == sums), -1)
    sums_live = live_range(steps, sums.buffer, reduce_index) if own_squares >= 0 else None
    if sums_live is None or address(steps[own_squares], "x") != address(scale, "x"):
        return None
    users = [i for i in sums_live if i > reduce_index and touches(steps[i], sums.buffer)]
    if len(users) != len(squares) or not all(steps[i].code == scale.code for i in users):
        return None
    # The products are the next all-reduce along the same lines.
    line = steps[reduce_index]
    products = next((i for i in range(scaling + 1, len(steps)) if is_line(steps[i]) and same_lines(steps[i], line)), -1)
    steps_between = range(reduce_index + 1, products)
    other_scalings = tuple(i for i in users if i in steps_between and i != scaling)
    writers = [i for i in steps_between if i not in users and touches_elements(steps[i], *scaled_vectors(scale))]
    rest = [steps[i] for i in steps_between if i not in (scaling, *writers)]
    if products < max(users) or not _can_follow_products(steps, scaling, other_scalings, products):
        return None
    source = address(steps[products], "source").buffer
    parts = _parts(steps[products], [steps[i] for i in writers], count(scale, "M"))
    products_live = live_range(steps, source, products)
    if (
        parts is None
        or products_live is None
        or products_live.start <= scaling
        or any(touches(step, source) for step in rest)
    ):
        return None
    return MergeableNorm(
        squares=squares,
        own_squares=own_squares,
        reduce=reduce_index,
        scaling=scaling,
        other_scalings=other_scalings,
        products=products,
        parts=parts,
        products_live=products_live,
        sums_live=sums_live,
    )


def _can_follow_products(steps: Sequence[SymStep], scaling: int, other_scalings: Sequence[int], products: int) -> bool:
    """Return whether the other norms can scale their vectors after a merged all-reduce.

    Several norms may share one all-reduce of their sums. If it is merged with the all-reduce of the
    products that follow one of the norms, the sums are complete only together with these products.
    The other norms must then scale their vectors later. This is possible if they scale different
    vectors, and if no step reads these vectors before.

    Args:
        steps: Steps of a block.
        scaling: Index of the scaling of the norm to be merged.
        other_scalings: Indices of the scalings of other norms.
        products: Index of the all-reduce of the products.
    """
    are_other_vectors = not any(touches_elements(steps[i], *scaled_vectors(steps[scaling])) for i in other_scalings)
    later_steps = ((i, steps[j]) for i in other_scalings for j in range(i + 1, products))
    return are_other_vectors and not any(touches_elements(step, *scaled_vectors(steps[i])) for i, step in later_steps)


def _squares(steps: Sequence[SymStep], reduce_index: int, kernel: str) -> range:
    """Return the steps that compute the input of an all-reduce, if they all run a given kernel.

    Args:
        steps: Steps of a block.
        reduce_index: Index of the all-reduce.
        kernel: Name of the kernel.

    Returns:
        The range of the steps. It is empty if other steps compute some of the elements, or if the
        all-reduce does not read and write one buffer from its first element.
    """
    line, first, elements = steps[reduce_index], reduce_index, 0
    if reduce_index < 0 or not in_place(line) or address(line, "source").offset:
        return range(0)
    while first and runs(steps[first - 1], kernel) and touches(steps[first - 1], address(line, "source").buffer):
        first -= 1
        elements += count(steps[first], "M") * _SUMS[kernel]
    return range(first, reduce_index) if elements == count(line, "elements") else range(0)


def scaled_vectors(scale: SymStep) -> tuple[SymAddress, int]:
    """Return the output of a scaling step: where the normalised vectors are stored, and their size.

    Returns:
        Address of the first vector, and number of elements of all vectors.
    """
    return address(scale, "out"), count(scale, "M") * count(scale, "K")


def _parts(reduce_step: SymStep, writers: Sequence[SymStep], tokens: int) -> tuple[tuple[int, int], ...] | None:
    """Return where several steps store their products in the buffer of an all-reduce.

    Args:
        reduce_step: The all-reduce.
        writers: Steps that compute the products.
        tokens: Number of tokens.

    Returns:
        (offset, width) of each product: the offset in elements of all tokens, and the width in
        elements per token. None if a step does not compute a linear function of its input, or if
        the products do not fill the buffer.
    """
    source, elements = address(reduce_step, "source"), count(reduce_step, "elements")
    parts = []
    for step in writers:
        kernel = kernel_of(step)
        if kernel is None or kernel.name not in _LINEAR:
            return None
        out = address(step, "out")
        if out.buffer is not source.buffer:
            return None
        parts.append((out.offset, count(step, "N")))
    if not in_place(reduce_step) or source.offset or sum(width for _, width in parts) * tokens != elements:
        return None
    return tuple(parts)
