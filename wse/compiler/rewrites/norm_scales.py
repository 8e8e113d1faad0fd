"""Rewrite: apply the scale of a norm after the product that follows, and merge their all-reduces.

With y = W (g x) / rms(x), the scale is a single number per token. The sums of a norm are taken
along the same lines as the partial sums of the product, so both can travel in one message.
This saves the norm's own all-reduce and its pass over x. With a LayerNorm, y = (W (g x) - mean(x) W
g) / sigma(x) + W b. The sums are those of x and of its squares, and PEs store W g and W b, which
are computed before a run.

For every norm, consisting of sums, their all-reduce and the scaling:

1. Find the products: the next all-reduce along the same lines must be of products with the
   normalised vectors. Nothing else may read these vectors before it. If the norms of several
   vectors share one all-reduce, the other vectors must be read after the products.
2. Add up values and squares, and multiply x by the gain, in one kernel. The sums of all norms are
   stored in front of the products.
3. Combine the sums and the products in one all-reduce.
4. Scale the products. If the normalised vectors are read later, scale them, too; a LayerNorm is
   left unchanged in this case. Then apply the scalings of the other norms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from wse.compiler.lowering.dispatch import expert_stage
from wse.compiler.lowering.phase.block_steps import BlockSteps
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.operands import Operand
from wse.compiler.options import NORM_SCALES, Options
from wse.compiler.passes.tiling.tiles import norm_products_name
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    in_place,
    is_line,
    kernel_of,
    live_range,
    move_buffer,
    number,
    runs,
    same_lines,
    touches,
    touches_elements,
    with_operands,
)
from wse.compiler.symbolic import SymAddress, SymStep, fixed_number
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS
from wse.program.isa.linear import LINEAR as PRODUCTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """A norm and the matrix products that read the normalised vectors, as indices of their steps.

    Several norms may share one all-reduce of their sums.

    Attributes:
        squares: Consecutive steps that compute the sums of all norms with the same all-reduce.
        own_squares: The one of these steps that belongs to this norm.
        reduce: All-reduce of all sums.
        scaling: Scaling of this norm.
        other_scalings: Scalings of the other norms before the products.
        products: All-reduce of the products.
        parts: Offset and width of each product in their buffer.
        products_live: Steps in which the values in the buffer of the products are live.
        sums_live: Steps in which the values in the buffer of the sums are live.
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


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Merge the all-reduce of every norm with that of the products that follow it, where possible.

    The scale of a norm is a single number per token, so it can be applied to the products instead
    of their input. ``setting`` is not used.
    """
    if expert_stage(c) is not None:  # experts in another block read the normalised vectors, too
        return
    while (merged := _first_to_merge(c, block_steps.steps)) is not None:
        block_steps.steps = _rewrite(c, block_steps.steps, *merged)


def _first_to_merge(c: Context, steps: Sequence[SymStep]) -> tuple[_Norm, _NormSteps] | None:
    """Return the first norm of a block that can be merged with the products after it.

    Returns:
        The norm and the steps that replace it; None if there is no such norm.
    """
    for scaling, step in enumerate(steps):
        if runs(step, "rms_scale") or runs(step, "layer_scale"):
            norm = _norm(steps, scaling)
            new_steps = None if norm is None else (_rms if runs(step, "rms_scale") else _layer)(c, steps, norm)
            if norm is not None and new_steps is not None:
                return norm, new_steps
    return None


def _norm(steps: Sequence[SymStep], scaling: int) -> _Norm | None:
    """Return the norm to which a scaling step belongs, if it can be merged with the next products.

    Args:
        steps: Steps of a block.
        scaling: Index of the scaling step, which is the last step of a norm.

    Returns:
        The norm and the products that read the normalised vectors, as indices of steps; None if
        they cannot be merged.
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
    # 1. Find the products.
    line = steps[reduce_index]
    products = next((i for i in range(scaling + 1, len(steps)) if is_line(steps[i]) and same_lines(steps[i], line)), -1)
    steps_between = range(reduce_index + 1, products)
    other_scalings = tuple(i for i in users if i in steps_between and i != scaling)
    writers = [i for i in steps_between if i not in users and touches_elements(steps[i], *_vectors(scale))]
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
    return _Norm(
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
    """Return whether the scalings of other norms may be moved after the all-reduce of the products.

    They may if they scale other vectors, and if no step reads these vectors before the products are
    complete.

    Args:
        steps: Steps of a block.
        scaling: Index of the scaling of the norm to be merged.
        other_scalings: Indices of the scalings of other norms.
        products: Index of the all-reduce of the products.
    """
    are_other_vectors = not any(touches_elements(steps[i], *_vectors(steps[scaling])) for i in other_scalings)
    later_steps = ((i, steps[j]) for i in other_scalings for j in range(i + 1, products))
    return are_other_vectors and not any(touches_elements(step, *_vectors(steps[i])) for i, step in later_steps)


def _squares(steps: Sequence[SymStep], reduce_index: int, kernel: str) -> range:
    """Return the steps that compute the elements of an all-reduce, if they all run a given kernel.

    Args:
        steps: Steps of a block.
        reduce_index: Index of the all-reduce.
        kernel: Name of the kernel.

    Returns:
        The range of the steps. It is empty if other steps compute some of the elements, or if the
        all-reduce does not combine a buffer from its start, in place.
    """
    line, first, elements = steps[reduce_index], reduce_index, 0
    if reduce_index < 0 or not in_place(line) or address(line, "source").offset:
        return range(0)
    while first and runs(steps[first - 1], kernel) and touches(steps[first - 1], address(line, "source").buffer):
        first -= 1
        elements += count(steps[first], "M") * SUMS[kernel]
    return range(first, reduce_index) if elements == count(line, "elements") else range(0)


def _vectors(scale: SymStep) -> tuple[SymAddress, int]:
    """Return the output of a scaling step: where the normalised vectors are stored, and their size.

    Returns:
        Address of the first vector, and number of elements of all vectors.
    """
    return address(scale, "out"), count(scale, "M") * count(scale, "K")


def _parts(reduce_step: SymStep, writers: Sequence[SymStep], tokens: int) -> tuple[tuple[int, int], ...] | None:
    """Return the offset and width of each product in the buffer of an all-reduce.

    Args:
        reduce_step: The all-reduce.
        writers: Steps that compute the products.
        tokens: Number of tokens.

    Returns:
        (offset, width) pairs. None if a step is not linear in its input, or the steps do not write
        all elements of the all-reduce.
    """
    source, elements = address(reduce_step, "source"), count(reduce_step, "elements")
    parts = []
    for step in writers:
        kernel = kernel_of(step)
        if kernel is None or kernel.name not in LINEAR:
            return None
        out = address(step, "out")
        if out.buffer is not source.buffer:
            return None
        parts.append((out.offset, count(step, "N")))
    if not in_place(reduce_step) or source.offset or sum(width for _, width in parts) * tokens != elements:
        return None
    return tuple(parts)


class _NormSteps(NamedTuple):
    """Steps that replace a norm if its all-reduce is merged with that of the products after it.

    Attributes:
        summing: Step that computes the sums and multiplies by the gain.
        scale_step: Function that returns the step that scales a product, given its offset and
            width.
    """

    summing: SymStep
    scale_step: Callable[[int, int], SymStep]


def _rms(c: Context, steps: Sequence[SymStep], norm: _Norm) -> _NormSteps:
    """Return the steps that replace an RMSNorm whose all-reduce is merged with that of products."""
    scale, products = steps[norm.scaling], steps[norm.products]
    gain: dict[str, Operand] = {"gain": address(scale, "gain"), "offset": number(scale, "offset")}
    sums, first = _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        """Return the step that applies the scale of the norm to one product.

        Args:
            offset: Offset of the product among all products.
            N: Width of the product.
        """
        x = replace(sums, offset=first + offset)
        return compute_step(products, "rms_scale_sums", x=x, sums=sums, N=N, **_root(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_sum_squares", **gain), scale_step)


def _layer(c: Context, steps: Sequence[SymStep], norm: _Norm) -> _NormSteps | None:
    """Return the steps that replace a LayerNorm whose all-reduce is merged with that of products.

    Return None if the normalised vectors are read later, or if PEs do not store the products of
    gain and bias with the weight matrices.
    """
    scale, products = steps[norm.scaling], steps[norm.products]
    M, gain = count(scale, "M"), address(scale, "gain")
    name, outputs = norm_products_name(gain.buffer.name), sum(width for _, width in norm.parts)
    read = _is_read(steps[norm.products + 1 :], *_vectors(scale))
    if read or count(scale, "offset") or not c.buffers.has_tile(c.builder.stage, name):
        return None
    vectors, sums, first = c.tile(name), _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        """Return the step that applies the scale of the norm to one product.

        Args:
            offset: Offset of the product among all products.
            N: Width of the product.
        """
        gain_products = SymAddress(buffer=vectors, offset=offset // M)
        bias_products = SymAddress(buffer=vectors, offset=outputs + offset // M)
        at: dict[str, Operand] = {
            "x": replace(sums, offset=first + offset),
            "of_gain": gain_products,
            "of_bias": bias_products,
        }
        return compute_step(products, "layer_scale_sums", **at, sums=sums, N=N, **_root(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_moments", gain=gain), scale_step)


def _own_sums(steps: Sequence[SymStep], norm: _Norm) -> SymAddress:
    """Return the address of a norm's sums in the common buffer of sums and products."""
    return replace(address(steps[norm.scaling], "sums"), buffer=address(steps[norm.products], "source").buffer)


def _root(scale: SymStep) -> dict[str, Operand]:
    """Return the operands that all scaling kernels need: tokens, number of features, and epsilon.

    Returns:
        Operands by name.
    """
    return {"M": count(scale, "M"), "size": number(scale, "size"), "eps_atto": number(scale, "eps_atto")}


def _sum_step(steps: Sequence[SymStep], norm: _Norm, kernel: str, **gain: Operand) -> SymStep:
    """Return the step that computes the sums of a norm and multiplies the vectors by its gain.

    Args:
        steps: Steps of a block.
        norm: The norm.
        kernel: Name of the kernel.
        gain: Operands of the gain.
    """
    scale, square = steps[norm.scaling], steps[norm.own_squares]
    sizes = {"M": count(scale, "M"), "K": count(scale, "K")}
    at: dict[str, Operand] = {"x": address(square, "x"), "sums": _own_sums(steps, norm), "out": address(scale, "out")}
    return compute_step(square, kernel, **at, **sizes, **gain)


def _rewrite(c: Context, steps: list[SymStep], norm: _Norm, new_steps: _NormSteps) -> list[SymStep]:
    """Return the steps of a block after a norm's all-reduce is merged with that of its products.

    These are phases 2 to 4 of the rewrite.

    Args:
        c: Context of the phase that is lowered.
        steps: Steps of the block.
        norm: The norm.
        new_steps: Steps that replace the norm.
    """
    scale, products, line = steps[norm.scaling], steps[norm.products], steps[norm.reduce]
    buffer, normed = address(products, "source").buffer, _vectors(scale)
    elements, sums = count(products, "elements"), count(line, "elements")
    c.temp(buffer.name, sums + elements, buffer.view, buffer.use)
    # 2. Sums in front of the products.
    move_buffer(steps, norm.products_live, buffer, buffer, sums)
    move_buffer(steps, norm.sums_live, address(line, "source").buffer, buffer, 0)
    summing = [new_steps.summing if i == norm.own_squares else steps[i] for i in norm.squares]
    # 3. One all-reduce for both.
    start = SymAddress(buffer=buffer)
    combined_step = with_operands(products, source=start, target=start, elements=fixed_number(sums + elements))
    # 4. Scale the products, the vectors that are read later, and the vectors of other norms.
    parts = ((0, elements),) if count(scale, "M") == 1 else norm.parts
    scale_steps = [new_steps.scale_step(offset, N) for offset, N in parts]
    if _is_read(steps[norm.products + 1 :], *normed):
        own_sums = address(new_steps.summing, "sums")
        scale_steps.append(
            compute_step(products, "l2_scale", x=normed[0], sums=own_sums, K=count(scale, "K"), **_root(scale))
        )
    scale_steps += [steps[i] for i in norm.other_scalings]
    moved_steps = (norm.scaling, *norm.other_scalings)
    steps_between = [steps[i] for i in range(norm.reduce + 1, norm.products) if i not in moved_steps]
    return [
        *steps[: norm.squares.start],
        *summing,
        *steps_between,
        combined_step,
        *scale_steps,
        *steps[norm.products + 1 :],
    ]


def _is_read(steps: Sequence[SymStep], at: SymAddress, elements: int) -> bool:
    """Return whether elements of a buffer are read in these steps before they are overwritten.

    Args:
        steps: Steps of a block.
        at: Address of the first element.
        elements: Number of elements.
    """
    using = next((i for i, step in enumerate(steps) if touches_elements(step, at, elements)), None)
    return using is not None and live_range(steps, at.buffer, using) is None


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a model and a request, as text; "" if it is valid.

    It is invalid if activations may overflow before they are scaled, if sums are not float32, or if
    a LayerNorm is followed by quantised weights.
    """
    if options.activation_type == "float16":
        return "float16 activations may overflow where they are not normalised"
    if spec.norm == "layer" and options.dtype in CODINGS:
        return f"{spec.name} has LayerNorm, whose gains and biases cannot be multiplied with quantised weights"
    return needs_float32_sums(spec, options)


SUMS: Final = {"sum_squares": 1, "moments": 2}
"""Sums per token, by the kernel that computes them."""

LINEAR: Final = frozenset(("turn_block", *(kernel.name for kernel in PRODUCTS)))
"""Kernels whose outputs are linear in ``x``, so that a token can be scaled afterwards."""

REWRITE: Final = Rewrite(
    name=NORM_SCALES,
    summary="Sums of squares of a norm travel with the partial sums of the next product, which is scaled instead.",
    source="FlashNorm (Graef et al., arXiv 2407.09577): RMSNorm's scale deferred past the matrix product",
    position=10,
    apply=_apply,
    invalid=_invalid,
    holds_tiles=lambda spec: spec.norm == "layer",
)
