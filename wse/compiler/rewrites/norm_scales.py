"""Rewrite: apply the scale of a norm after the product that follows, and merge their all-reduces.

With y = W (g x) / rms(x), the scale is a single number per token. The sums of a norm are taken
along the same lines as the partial sums of the product, so both can travel in one message. This
saves the norm's own all-reduce and its pass over x. With a LayerNorm, y = (W (g x) - mean(x) W g) /
sigma(x) + W b. In this case, x and its squares are summed, and PEs store W g and W b, which are
computed before a run.

For every norm, consisting of sums, their all-reduce and the scaling:

1. Find the products: the next all-reduce along the same lines must add up products with the
   normalised vectors. Nothing else may read these vectors before this all-reduce. If the norms of
   several vectors share one all-reduce, the other vectors must be read after the products.
2. Add up values and squares, and multiply x by the gain, in one kernel. The sums of all norms are
   stored in front of the products.
3. Combine the sums and the products in one all-reduce.
4. Scale the products. If the normalised vectors are read later, scale them as well; a LayerNorm is
   left unchanged in this case. Then apply the scalings of the other norms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from wse.compiler.lowering.dispatch import expert_stage
from wse.compiler.lowering.phase.block_steps import BlockSteps, Operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import NORM_SCALES, Options
from wse.compiler.passes.tiling.vector_tiles import norm_products_name
from wse.compiler.rewrites.mergeable_norms import MergeableNorm, mergeable_norm, scaled_vectors
from wse.compiler.rewrites.merged_messages import merged_line
from wse.compiler.rewrites.rewrite import Rewrite, needs_float32_sums
from wse.compiler.rewrites.steps import (
    address,
    compute_step,
    count,
    live_range,
    number,
    runs,
    touches_elements,
)
from wse.compiler.symbolic import SymAddress, SymStep
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS


def _apply(c: Context, block_steps: BlockSteps, setting: int) -> None:
    """Merge the all-reduce of each norm with the all-reduce of the matrix products after it.

    A norm divides each token's vector by one number, so the division can be applied to the products
    instead of their inputs. Norms for which this is impossible are not changed. ``setting`` is not
    used.
    """
    if expert_stage(c) is not None:  # experts in another block read the normalised vectors, too
        return
    while (merged := _first_to_merge(c, block_steps.steps)) is not None:
        block_steps.steps = _rewrite(c, block_steps.steps, *merged)


def _first_to_merge(c: Context, steps: Sequence[SymStep]) -> tuple[MergeableNorm, _NormSteps] | None:
    """Return the first norm of a block that can be merged with the products after it.

    Returns:
        The norm and the steps that replace it; None if there is no such norm.
    """
    for scaling, step in enumerate(steps):
        if runs(step, "rms_scale") or runs(step, "layer_scale"):
            norm = mergeable_norm(steps, scaling)
            new_steps = None if norm is None else (_rms if runs(step, "rms_scale") else _layer)(c, steps, norm)
            if norm is not None and new_steps is not None:
                return norm, new_steps
    return None


class _NormSteps(NamedTuple):
    """Steps that replace a norm if its all-reduce is merged with that of the products after it.

    Attributes:
        summing: Step that computes the sums of the norm and multiplies the vectors by its gain.
        scale_step: Function that returns the step that scales a product. Its arguments are the
            offset and the width of the product.
    """

    summing: SymStep
    scale_step: Callable[[int, int], SymStep]


def _rms(c: Context, steps: Sequence[SymStep], norm: MergeableNorm) -> _NormSteps:
    """Return steps that replace an RMSNorm, and scale matrix products instead of their inputs.

    The matrix products that follow the norm are scaled after one all-reduce, which adds up both
    these products and the sums of the norm.

    Args:
        c: Context of the phase being lowered; not used, but `_layer` has the same parameters.
        steps: Steps of a block.
        norm: The norm, and the matrix products of the normalised vectors.
    """
    scale, products = steps[norm.scaling], steps[norm.products]
    gain: dict[str, Operand] = {"gain": address(scale, "gain"), "offset": number(scale, "offset")}
    sums, first = _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        """Return the step that applies the scale of the norm to one product.

        Args:
            offset: Offset of the product from the first product, in elements.
            N: Width of the product, in elements per token.
        """
        x = replace(sums, offset=first + offset)
        return compute_step(products, "rms_scale_sums", x=x, sums=sums, N=N, **_rms_operands(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_sum_squares", **gain), scale_step)


def _layer(c: Context, steps: Sequence[SymStep], norm: MergeableNorm) -> _NormSteps | None:
    """Return steps that replace a LayerNorm, and scale matrix products instead of their inputs.

    The matrix products that follow the norm are scaled after one all-reduce, which adds up both
    these products and the sums of the norm. The result is None in three cases: other steps read the
    normalised vectors later, gains are stored minus one, or PEs do not store the products of the
    weight matrices with the norm's gain and bias.
    """
    scale, products = steps[norm.scaling], steps[norm.products]
    M, gain = count(scale, "M"), address(scale, "gain")
    name, outputs = norm_products_name(gain.buffer.name), sum(width for _, width in norm.parts)
    read = _is_read(steps[norm.products + 1 :], *scaled_vectors(scale))
    if read or count(scale, "offset") or not c.buffers.has_tile(c.builder.stage, name):
        return None
    biased = count(scale, "biased")
    vectors, sums, first = c.tile(name), _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        """Return the step that applies the scale of the norm to one product.

        Args:
            offset: Offset of the product from the first product, in elements.
            N: Width of the product, in elements per token.
        """
        gain_products = SymAddress(buffer=vectors, offset=offset // M)
        bias_products = SymAddress(buffer=vectors, offset=biased * outputs + offset // M)
        at: dict[str, Operand] = {
            "x": replace(sums, offset=first + offset),
            "gain_product": gain_products,
            "bias_product": bias_products,
        }
        return compute_step(products, "layer_scale_sums", **at, sums=sums, N=N, biased=biased, **_rms_operands(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_moments", gain=gain), scale_step)


def _own_sums(steps: Sequence[SymStep], norm: MergeableNorm) -> SymAddress:
    """Return where the sums of a norm are stored in the buffer of the merged all-reduce."""
    return replace(address(steps[norm.scaling], "sums"), buffer=address(steps[norm.products], "source").buffer)


def _rms_operands(scale: SymStep) -> dict[str, Operand]:
    """Return the operands for the root mean square of a norm: tokens, features and epsilon.

    Args:
        scale: Step that scales the vectors of the norm. The operands are copied from it.

    Returns:
        Operands of a kernel by name.
    """
    return {"M": count(scale, "M"), "size": number(scale, "size"), "eps_atto": number(scale, "eps_atto")}


def _sum_step(steps: Sequence[SymStep], norm: MergeableNorm, kernel: str, **gain: Operand) -> SymStep:
    """Return a step that computes the sums of a norm and also multiplies the vectors by its gain.

    Args:
        steps: Steps of a block.
        norm: The norm, which is replaced by this step and by scalings of the products.
        kernel: Name of the kernel.
        gain: Operands for the gain.
    """
    scale, square = steps[norm.scaling], steps[norm.own_squares]
    sizes = {"M": count(scale, "M"), "K": count(scale, "K")}
    at: dict[str, Operand] = {"x": address(square, "x"), "sums": _own_sums(steps, norm), "out": address(scale, "out")}
    return compute_step(square, kernel, **at, **sizes, **gain)


def _rewrite(c: Context, steps: list[SymStep], norm: MergeableNorm, new_steps: _NormSteps) -> list[SymStep]:
    """Return the steps of a block after merging the all-reduces of a norm and of its products.

    The products are the matrix products that follow the norm.

    1. The sums of the norm are stored in front of the products, and one all-reduce combines both.
    2. The products are scaled.
    3. The vectors themselves are scaled only if later steps read them.
    4. The vectors of other norms that share the all-reduce are scaled.

    Args:
        c: Context of the phase being lowered.
        steps: Steps of the block.
        norm: The norm and its products, as step indices.
        new_steps: Steps that replace the norm.
    """
    scale, products, line = steps[norm.scaling], steps[norm.products], steps[norm.reduce]
    normed = scaled_vectors(scale)
    combined_step = merged_line(c, steps, products, norm.products_live, line, norm.sums_live)  # 1
    summing = [new_steps.summing if i == norm.own_squares else steps[i] for i in norm.squares]
    # 2. Scale the products.
    parts = ((0, count(products, "elements")),) if count(scale, "M") == 1 else norm.parts
    scale_steps = [new_steps.scale_step(offset, N) for offset, N in parts]
    if _is_read(steps[norm.products + 1 :], *normed):  # 3
        own_sums = address(new_steps.summing, "sums")
        scale_steps.append(
            compute_step(products, "l2_scale", x=normed[0], sums=own_sums, K=count(scale, "K"), **_rms_operands(scale))
        )
    scale_steps += [steps[i] for i in norm.other_scalings]  # 4
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
    """Return whether one of the given steps reads some elements before they are overwritten.

    Args:
        steps: Steps of a block.
        at: Address of the first element.
        elements: Number of elements.
    """
    using = next((i for i, step in enumerate(steps) if touches_elements(step, at, elements)), None)
    return using is not None and live_range(steps, at.buffer, using) is None


def _invalid(spec: ModelSpec, options: Options) -> str:
    """Return why the rewrite is invalid for a model and request; "" if it is valid.

    It is invalid if activations may overflow before they are scaled, if sums are not float32, or if
    a LayerNorm has gains that are stored minus one or is followed by quantised weights.
    """
    if options.activation_type == "float16":
        return "float16 activations may overflow where they are not normalised"
    if spec.norm == "layer" and spec.norm_unit_offset:
        return f"{spec.name} has LayerNorm, whose gains are stored minus one"
    if spec.norm == "layer" and options.dtype in CODINGS:
        return f"{spec.name} has LayerNorm, whose gains and biases cannot be multiplied with quantised weights"
    return needs_float32_sums(spec, options)


REWRITE: Final = Rewrite(
    name=NORM_SCALES,
    summary="Sums of squares of a norm travel with the partial sums of the next product, which is scaled instead.",
    source="FlashNorm (Graef et al., arXiv 2407.09577): RMSNorm's scale deferred past the matrix product",
    position=10,
    apply=_apply,
    invalid=_invalid,
    holds_tiles=lambda spec: spec.norm == "layer",
)
