"""Norms that ride along: sums of squares in the message of the product that follows, the scale applied after it.

With y = W (g x) / rms(x) the scale is one number a token. A norm's sums are taken over the same lines as the partial
sums of the product, so they travel in one message with these, and both the norm's own all-reduce and its pass over x
are saved. With a LayerNorm y = (W (g x) - mean(x) W g) / sigma(x) + W b: the sums are those of x and of its squares,
and PEs hold W g and W b, worked out before a run.

For every norm, the sums, their all-reduce and the scaling, which follow each other:

1. The next all-reduce along the same lines must be of products with the normalised vectors, and nothing else may read
   these before it.
2. Values and squares are summed, and x is multiplied by the gain, in one kernel. Its sums stand in front of the
   products' own.
3. One all-reduce has both.
4. The products are scaled. Where the normalised vectors are read later, they are scaled too, but with a LayerNorm,
   which then stays apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from wse.compiler.lower.builder import Draft, Operand
from wse.compiler.lower.context import Context
from wse.compiler.lower.dispatch import expert_stage
from wse.compiler.options import NORM_SCALES, Options
from wse.compiler.passes.tiles import norm_products_name
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
    with_operands,
)
from wse.compiler.state import SymAddress, SymBuffer, SymStep, fixed_number
from wse.isa.linear import LINEAR as PRODUCTS
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """A norm and what follows it: indices of its scaling, and of the all-reduce of products with what it makes.

    ``parts`` are the products' places in their buffer: offset and width of each.
    """

    scaling: int
    products: int
    parts: tuple[tuple[int, int], ...]
    within: range  # of the products' values


def _apply(c: Context, draft: Draft, setting: int) -> None:
    if expert_stage(c) is not None:  # which reads normalised vectors too, in another block
        return
    for step in [step for step in draft.steps if runs(step, "rms_scale") or runs(step, "layer_scale")]:
        norm = _norm(draft.steps, draft.steps.index(step))
        if norm is None:
            continue
        if runs(step, "rms_scale"):
            draft.steps = _rewritten(c, draft.steps, norm, _rms(draft.steps, norm))
        elif (layer := _layer(c, draft.steps, norm)) is not None:
            draft.steps = _rewritten(c, draft.steps, norm, layer)


def _norm(steps: Sequence[SymStep], scaling: int) -> _Norm | None:
    """The norm whose scaling is that step, where it can ride along."""
    scale, reduce_, square = steps[scaling], steps[scaling - 1], steps[scaling - 2]
    if scaling < 2 or not (is_line(reduce_) and in_place(reduce_)):
        return None
    summing, sums_of_token = ("sum_squares", 1) if runs(scale, "rms_scale") else ("moments", 2)
    if not runs(square, summing):
        return None
    sums, tokens, normed = address(scale, "sums"), count(scale, "M"), address(scale, "out").buffer
    whole = address(reduce_, "source") == sums == address(square, "sums")
    whole = whole and count(reduce_, "elements") == sums_of_token * tokens
    if not whole or address(square, "x") != address(scale, "x") or address(scale, "x").buffer is normed:
        return None
    # 1. The products.
    writers: list[SymStep] = []
    for products in range(scaling + 1, len(steps)):
        step = steps[products]
        if is_line(step) and same_lines(step, reduce_):
            parts = _parts(step, writers, tokens)
            within = live_range(steps, address(step, "source").buffer, products)
            if parts is None or within is None or within.start <= scaling:
                return None
            return _Norm(scaling=scaling, products=products, parts=parts, within=within)
        if not touches(step, normed):
            return None
        writers.append(step)
    return None


def _parts(reduce_: SymStep, writers: Sequence[SymStep], tokens: int) -> tuple[tuple[int, int], ...] | None:
    """Offset and width of what each step wrote, if all are linear in what they read and fill what is reduced."""
    source, elements = address(reduce_, "source"), count(reduce_, "elements")
    parts = []
    for step in writers:
        kernel = kernel_of(step)
        if kernel is None or kernel.name not in LINEAR:
            return None
        out = address(step, "out")
        if out.buffer is not source.buffer:
            return None
        parts.append((out.offset, count(step, "N")))
    if not in_place(reduce_) or source.offset or sum(width for _, width in parts) * tokens != elements:
        return None
    return tuple(parts)


class _Riding(NamedTuple):
    """The steps that a norm becomes: how many sums there are, the kernel that makes them, and the scaling of a part.

    ``scaled`` gives the steps that scale some products, by their place and width, whose sums are at an address.
    """

    sums: int
    summing: SymStep
    scaled: Callable[[SymAddress, int, int], SymStep]


def _rms(steps: Sequence[SymStep], norm: _Norm) -> _Riding:
    scale, products = steps[norm.scaling], steps[norm.products]
    M, root = count(scale, "M"), _root(scale)
    gain: dict[str, Operand] = {"gain": address(scale, "gain"), "offset": number(scale, "offset")}

    def scaled(sums: SymAddress, offset: int, N: int) -> SymStep:
        x = replace(sums, offset=M + offset)
        return compute_step(products, "rms_scale_sums", x=x, sums=sums, N=N, **root)

    return _Riding(M, _summing(steps, norm, "gain_sum_squares", **gain), scaled)


def _layer(c: Context, steps: Sequence[SymStep], norm: _Norm) -> _Riding | None:
    """A LayerNorm that rides along; None where PEs do not hold what that needs, or others read the vectors."""
    scale, products = steps[norm.scaling], steps[norm.products]
    M, gain, root = count(scale, "M"), address(scale, "gain"), _root(scale)
    name, outputs = norm_products_name(gain.buffer.name), sum(width for _, width in norm.parts)
    read = _is_read(steps[norm.products + 1 :], address(scale, "out").buffer)
    if read or count(scale, "offset") or not c.buffers.has_tile(c.builder.stage, name):
        return None
    vectors = c.tile(name)

    def scaled(sums: SymAddress, offset: int, N: int) -> SymStep:
        of_gain = SymAddress(buffer=vectors, offset=offset // M)
        of_bias = SymAddress(buffer=vectors, offset=outputs + offset // M)
        at: dict[str, Operand] = {"x": replace(sums, offset=2 * M + offset), "of_gain": of_gain, "of_bias": of_bias}
        return compute_step(products, "layer_scale_sums", **at, sums=sums, N=N, **root)

    return _Riding(2 * M, _summing(steps, norm, "gain_moments", gain=gain), scaled)


def _root(scale: SymStep) -> dict[str, Operand]:
    """The operands of a scaling that say of how many tokens, over how many features, and what is added to these."""
    return {"M": count(scale, "M"), "size": number(scale, "size"), "eps_atto": number(scale, "eps_atto")}


def _summing(steps: Sequence[SymStep], norm: _Norm, kernel: str, **gain: Operand) -> SymStep:
    """The step that sums, and multiplies by the gain."""
    scale, square, products = steps[norm.scaling], steps[norm.scaling - 2], steps[norm.products]
    sums = SymAddress(buffer=address(products, "source").buffer)
    sizes = {"M": count(scale, "M"), "K": count(scale, "K")}
    return compute_step(square, kernel, x=address(square, "x"), sums=sums, out=address(scale, "out"), **sizes, **gain)


def _rewritten(c: Context, steps: list[SymStep], norm: _Norm, riding: _Riding) -> list[SymStep]:
    scale, products = steps[norm.scaling], steps[norm.products]
    buffer, normed = address(products, "source").buffer, address(scale, "out")
    M, elements = count(scale, "M"), count(products, "elements")
    c.temp(buffer.name, riding.sums + elements, buffer.view, buffer.use)
    # 2. Sums in front of the products.
    move_buffer(steps, norm.within, buffer, buffer, riding.sums)
    sums = SymAddress(buffer=buffer)
    # 3. One all-reduce.
    both = with_operands(products, source=sums, target=sums, elements=fixed_number(riding.sums + elements))
    # 4. Scales.
    scaled = [riding.scaled(sums, offset, N) for offset, N in (((0, elements),) if M == 1 else norm.parts)]
    if _is_read(steps[norm.products + 1 :], normed.buffer):
        scaled.append(compute_step(products, "l2_scale", x=normed, sums=sums, K=count(scale, "K"), **_root(scale)))
    before, between = steps[: norm.scaling - 2], steps[norm.scaling + 1 : norm.products]
    return [*before, riding.summing, *between, both, *scaled, *steps[norm.products + 1 :]]


def _is_read(steps: Sequence[SymStep], buffer: SymBuffer) -> bool:
    """Whether what a buffer holds before these steps is read in them, before it is made anew."""
    using = next((i for i, step in enumerate(steps) if touches(step, buffer)), None)
    if using is None:
        return False
    made = live_range(steps, buffer, using)
    return made is None or made.start > using


def _invalid(spec: ModelSpec, options: Options) -> str:
    if options.activation_type == "float16":
        return "float16 activations may overflow where they are not normalised"
    if spec.norm == "layer" and options.dtype in CODINGS:
        return f"{spec.name} has LayerNorm, whose gains and biases are multiplied with weights, not with codes"
    return needs_float32_sums(spec, options)


LINEAR: Final = frozenset(("turn_block", *(kernel.name for kernel in PRODUCTS)))
"""Kernels whose outputs are linear in what they read as ``x``, so that a token's scale may be applied after them."""

REWRITE: Final = Rewrite(
    name=NORM_SCALES,
    summary="Sums of squares of a norm travel with the partial sums of the product that follows, which is scaled.",
    source="FlashNorm (Graef et al., arXiv 2407.09577): RMSNorm's scale deferred past the matrix product",
    apply=_apply,
    invalid=_invalid,
    holds_tiles=lambda spec: spec.norm == "layer",
)
