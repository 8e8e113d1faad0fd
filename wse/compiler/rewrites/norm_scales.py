"""Norms that ride along: sums of squares in the message of the product that follows, the scale applied after it.

With y = W (g x) / rms(x) the scale is one number a token. A norm's sums are taken over the same lines as the partial
sums of the product, so they travel in one message with these, and both the norm's own all-reduce and its pass over x
are saved. The scale of a LayerNorm would need the mean as well, and products with gain and bias: it stays apart.

For every norm, the sums of squares, their all-reduce and the scaling, which follow each other:

1. The next all-reduce along the same lines must be of products with the normalised vectors, and nothing else may read
   these before it.
2. Squares are summed, and x is multiplied by the gain, in one kernel. Its sums stand in front of the products' own.
3. One all-reduce has both.
4. The products are scaled. Where the normalised vectors are read later, they are scaled too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from wse.compiler.lower.builder import Draft, Operand
from wse.compiler.lower.context import Context
from wse.compiler.lower.dispatch import expert_stage
from wse.compiler.options import Options
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
    for step in [step for step in draft.steps if runs(step, "rms_scale")]:
        norm = _norm(draft.steps, draft.steps.index(step))
        if norm is not None:
            draft.steps = _rewritten(c, draft.steps, norm)


def _norm(steps: Sequence[SymStep], scaling: int) -> _Norm | None:
    """The norm whose scaling is that step, where it can ride along."""
    scale, reduce_, square = steps[scaling], steps[scaling - 1], steps[scaling - 2]
    if scaling < 2 or not (is_line(reduce_) and in_place(reduce_) and runs(square, "sum_squares")):
        return None
    sums, tokens, normed = address(scale, "sums"), count(scale, "M"), address(scale, "out").buffer
    whole = address(reduce_, "source") == sums == address(square, "sums") and count(reduce_, "elements") == tokens
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


def _rewritten(c: Context, steps: list[SymStep], norm: _Norm) -> list[SymStep]:
    scale, products = steps[norm.scaling], steps[norm.products]
    square, buffer = steps[norm.scaling - 2], address(products, "source").buffer
    M, K, normed = count(scale, "M"), count(scale, "K"), address(scale, "out")
    elements = count(products, "elements")
    c.temp(buffer.name, M + elements, buffer.view, buffer.use)
    # 2. Sums in front of the products.
    move_buffer(steps, norm.within, buffer, buffer, M)
    sums = SymAddress(buffer=buffer)
    gain: dict[str, Operand] = {"gain": address(scale, "gain"), "offset": number(scale, "offset")}
    first = compute_step(square, "gain_sum_squares", x=address(square, "x"), sums=sums, out=normed, M=M, K=K, **gain)
    # 3. One all-reduce.
    both = with_operands(products, source=sums, target=sums, elements=fixed_number(M + elements))
    # 4. Scales.
    root: dict[str, Operand] = {"M": M, "size": number(scale, "size"), "eps_atto": number(scale, "eps_atto")}
    parts = ((0, elements),) if M == 1 else norm.parts
    scaled = [
        compute_step(products, "rms_scale_sums", x=SymAddress(buffer=buffer, offset=M + offset), sums=sums, N=N, **root)
        for offset, N in parts
    ]
    if _is_read(steps[norm.products + 1 :], normed.buffer):
        scaled.append(compute_step(products, "l2_scale", x=normed, sums=sums, K=K, **root))
    before, between = steps[: norm.scaling - 2], steps[norm.scaling + 1 : norm.products]
    return [*before, first, *between, both, *scaled, *steps[norm.products + 1 :]]


def _is_read(steps: Sequence[SymStep], buffer: SymBuffer) -> bool:
    """Whether what a buffer holds before these steps is read in them, before it is made anew."""
    using = next((i for i, step in enumerate(steps) if touches(step, buffer)), None)
    if using is None:
        return False
    made = live_range(steps, buffer, using)
    return made is None or made.start > using


def _invalid(spec: ModelSpec, options: Options) -> str:
    if spec.norm != "rms":
        return f"{spec.name} has LayerNorm, whose means and biases do not ride along"
    if options.activation_type == "float16":
        return "float16 activations may overflow where they are not normalised"
    return needs_float32_sums(spec, options)


LINEAR: Final = frozenset(("turn_block", *(kernel.name for kernel in PRODUCTS)))
"""Kernels whose outputs are linear in what they read as ``x``, so that a token's scale may be applied after them."""

REWRITE: Final = Rewrite(
    name="norm-scales",
    summary="Sums of squares of a norm travel with the partial sums of the product that follows, which is scaled.",
    source="FlashNorm (Graef et al., arXiv 2407.09577): RMSNorm's scale deferred past the matrix product",
    apply=_apply,
    invalid=_invalid,
)
