"""Norms that ride along: sums of squares in the message of the product that follows, the scale applied after it.

With y = W (g x) / rms(x) the scale is one number a token. A norm's sums are taken over the same lines as the partial
sums of the product, so they travel in one message with these, and both the norm's own all-reduce and its pass over x
are saved. With a LayerNorm y = (W (g x) - mean(x) W g) / sigma(x) + W b: the sums are those of x and of its squares,
and PEs store W g and W b, computed before a run.

For every norm, the sums, their all-reduce and the scaling:

1. The next all-reduce along the same lines must be of products with the normalised vectors, and nothing else may read
   these before it. Where the norms of several vectors have one all-reduce, the others must be read after the products.
2. Values and squares are summed, and x is multiplied by the gain, in one kernel. Its sums, and those of the other
   norms, stand in front of the products' own.
3. One all-reduce has all.
4. The products are scaled. Where the normalised vectors are read later, they are scaled too, but with a LayerNorm,
   which then stays apart. The other norms' vectors are scaled now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from wse.compiler.lowering.builder import Draft, Operand
from wse.compiler.lowering.context import Context
from wse.compiler.lowering.dispatch import expert_stage
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
    """A norm by the indices of its steps and of the all-reduce of the products that read its result.

    Attributes:
        squares: The steps that sum for the norms of one all-reduce, this norm among them, one after another.
        own: The one of this norm.
        reduce: The all-reduce of all sums.
        scaling: The norm's scaling.
        others: The scalings of other norms before the products.
        products: The all-reduce of products.
        parts: The products' places in their buffer: offset and width of each.
        within: The steps from where products' values are made to where the next ones are.
        of_sums: The same of the sums.
    """

    squares: range
    own: int
    reduce: int
    scaling: int
    others: tuple[int, ...]
    products: int
    parts: tuple[tuple[int, int], ...]
    within: range
    of_sums: range


def _apply(c: Context, draft: Draft, setting: int) -> None:
    if expert_stage(c) is not None:  # which reads normalised vectors too, in another block
        return
    while (riding := _first_to_ride(c, draft.steps)) is not None:
        draft.steps = _rewrite(c, draft.steps, *riding)


def _first_to_ride(c: Context, steps: Sequence[SymStep]) -> tuple[_Norm, _NormSteps] | None:
    """Return the first norm whose statistics can travel with a product, and its new steps."""
    for scaling, step in enumerate(steps):
        if runs(step, "rms_scale") or runs(step, "layer_scale"):
            norm = _norm(steps, scaling)
            riding = None if norm is None else (_rms if runs(step, "rms_scale") else _layer)(c, steps, norm)
            if norm is not None and riding is not None:
                return norm, riding
    return None


def _norm(steps: Sequence[SymStep], scaling: int) -> _Norm | None:
    """Return the norm that ends with a given scaling step, if its statistics can travel with a product."""
    scale, sums = steps[scaling], address(steps[scaling], "sums")
    reduce_ = next((i for i in reversed(range(scaling)) if is_line(steps[i])), -1)
    squares = _squares(steps, reduce_, "sum_squares" if runs(scale, "rms_scale") else "moments")
    own = next((i for i in squares if address(steps[i], "sums") == sums), -1)
    of_sums = live_range(steps, sums.buffer, reduce_) if own >= 0 else None
    if of_sums is None or address(steps[own], "x") != address(scale, "x"):
        return None
    users = [i for i in of_sums if i > reduce_ and touches(steps[i], sums.buffer)]
    if len(users) != len(squares) or not all(steps[i].code == scale.code for i in users):
        return None
    # 1. The products.
    line = steps[reduce_]
    products = next((i for i in range(scaling + 1, len(steps)) if is_line(steps[i]) and same_lines(steps[i], line)), -1)
    between = range(reduce_ + 1, products)
    others = tuple(i for i in users if i in between and i != scaling)
    writers = [i for i in between if i not in users and touches_elements(steps[i], *_vectors(scale))]
    rest = [steps[i] for i in between if i not in (scaling, *writers)]
    if products < max(users) or not _may_wait(steps, scaling, others, products):
        return None
    source = address(steps[products], "source").buffer
    parts = _parts(steps[products], [steps[i] for i in writers], count(scale, "M"))
    within = live_range(steps, source, products)
    if parts is None or within is None or within.start <= scaling or any(touches(step, source) for step in rest):
        return None
    return _Norm(
        squares=squares,
        own=own,
        reduce=reduce_,
        scaling=scaling,
        others=others,
        products=products,
        parts=parts,
        within=within,
        of_sums=of_sums,
    )


def _may_wait(steps: Sequence[SymStep], scaling: int, others: Sequence[int], products: int) -> bool:
    """Return whether the other scalings work on other vectors that nothing uses before the products."""
    apart = not any(touches_elements(steps[i], *_vectors(steps[scaling])) for i in others)
    later = ((i, steps[j]) for i in others for j in range(i + 1, products))
    return apart and not any(touches_elements(step, *_vectors(steps[i])) for i, step in later)


def _squares(steps: Sequence[SymStep], reduce_: int, kernel: str) -> range:
    """Return the steps that write all elements of an in-place all-reduce with a given kernel.

    None where others do.
    """
    line, first, elements = steps[reduce_], reduce_, 0
    if reduce_ < 0 or not in_place(line) or address(line, "source").offset:
        return range(0)
    while first and runs(steps[first - 1], kernel) and touches(steps[first - 1], address(line, "source").buffer):
        first -= 1
        elements += count(steps[first], "M") * SUMS[kernel]
    return range(first, reduce_) if elements == count(line, "elements") else range(0)


def _vectors(scale: SymStep) -> tuple[SymAddress, int]:
    """Return the address of the normalised vectors of a scaling, and their number of elements."""
    return address(scale, "out"), count(scale, "M") * count(scale, "K")


def _parts(reduce_: SymStep, writers: Sequence[SymStep], tokens: int) -> tuple[tuple[int, int], ...] | None:
    """Return offset and width of what each step wrote, if all are linear and cover the reduced elements."""
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


class _NormSteps(NamedTuple):
    """The steps that replace a norm: the one that sums, and those that scale products."""

    summing: SymStep
    scale_step: Callable[[int, int], SymStep]


def _rms(c: Context, steps: Sequence[SymStep], norm: _Norm) -> _NormSteps:
    scale, products = steps[norm.scaling], steps[norm.products]
    gain: dict[str, Operand] = {"gain": address(scale, "gain"), "offset": number(scale, "offset")}
    sums, first = _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        x = replace(sums, offset=first + offset)
        return compute_step(products, "rms_scale_sums", x=x, sums=sums, N=N, **_root(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_sum_squares", **gain), scale_step)


def _layer(c: Context, steps: Sequence[SymStep], norm: _Norm) -> _NormSteps | None:
    """Return the steps of a LayerNorm whose statistics travel with a product; None where that is not possible."""
    scale, products = steps[norm.scaling], steps[norm.products]
    M, gain = count(scale, "M"), address(scale, "gain")
    name, outputs = norm_products_name(gain.buffer.name), sum(width for _, width in norm.parts)
    read = _is_read(steps[norm.products + 1 :], *_vectors(scale))
    if read or count(scale, "offset") or not c.buffers.has_tile(c.builder.stage, name):
        return None
    vectors, sums, first = c.tile(name), _own_sums(steps, norm), count(steps[norm.reduce], "elements")

    def scale_step(offset: int, N: int) -> SymStep:
        of_gain = SymAddress(buffer=vectors, offset=offset // M)
        of_bias = SymAddress(buffer=vectors, offset=outputs + offset // M)
        at: dict[str, Operand] = {"x": replace(sums, offset=first + offset), "of_gain": of_gain, "of_bias": of_bias}
        return compute_step(products, "layer_scale_sums", **at, sums=sums, N=N, **_root(scale))

    return _NormSteps(_sum_step(steps, norm, "gain_moments", gain=gain), scale_step)


def _own_sums(steps: Sequence[SymStep], norm: _Norm) -> SymAddress:
    """Return the address of the norm's sums in front of the products."""
    return replace(address(steps[norm.scaling], "sums"), buffer=address(steps[norm.products], "source").buffer)


def _root(scale: SymStep) -> dict[str, Operand]:
    """Return the operands of a scaling for its tokens, features, and the constant that is added."""
    return {"M": count(scale, "M"), "size": number(scale, "size"), "eps_atto": number(scale, "eps_atto")}


def _sum_step(steps: Sequence[SymStep], norm: _Norm, kernel: str, **gain: Operand) -> SymStep:
    """Return the step that sums and multiplies by the gain."""
    scale, square = steps[norm.scaling], steps[norm.own]
    sizes = {"M": count(scale, "M"), "K": count(scale, "K")}
    at: dict[str, Operand] = {"x": address(square, "x"), "sums": _own_sums(steps, norm), "out": address(scale, "out")}
    return compute_step(square, kernel, **at, **sizes, **gain)


def _rewrite(c: Context, steps: list[SymStep], norm: _Norm, riding: _NormSteps) -> list[SymStep]:
    scale, products, line = steps[norm.scaling], steps[norm.products], steps[norm.reduce]
    buffer, normed = address(products, "source").buffer, _vectors(scale)
    elements, sums = count(products, "elements"), count(line, "elements")
    c.temp(buffer.name, sums + elements, buffer.view, buffer.use)
    # 2. Sums in front of the products.
    move_buffer(steps, norm.within, buffer, buffer, sums)
    move_buffer(steps, norm.of_sums, address(line, "source").buffer, buffer, 0)
    summing = [riding.summing if i == norm.own else steps[i] for i in norm.squares]
    # 3. One all-reduce.
    start = SymAddress(buffer=buffer)
    both = with_operands(products, source=start, target=start, elements=fixed_number(sums + elements))
    # 4. Scales.
    parts = ((0, elements),) if count(scale, "M") == 1 else norm.parts
    scaled = [riding.scale_step(offset, N) for offset, N in parts]
    if _is_read(steps[norm.products + 1 :], *normed):
        own = address(riding.summing, "sums")
        scaled.append(compute_step(products, "l2_scale", x=normed[0], sums=own, K=count(scale, "K"), **_root(scale)))
    scaled += [steps[i] for i in norm.others]
    moved = (norm.scaling, *norm.others)
    between = [steps[i] for i in range(norm.reduce + 1, norm.products) if i not in moved]
    return [*steps[: norm.squares.start], *summing, *between, both, *scaled, *steps[norm.products + 1 :]]


def _is_read(steps: Sequence[SymStep], at: SymAddress, elements: int) -> bool:
    """Return whether elements of a buffer are read in these steps before they are written again."""
    using = next((i for i, step in enumerate(steps) if touches_elements(step, at, elements)), None)
    return using is not None and live_range(steps, at.buffer, using) is None


def _invalid(spec: ModelSpec, options: Options) -> str:
    if options.activation_type == "float16":
        return "float16 activations may overflow where they are not normalised"
    if spec.norm == "layer" and options.dtype in CODINGS:
        return f"{spec.name} has LayerNorm, whose gains and biases are multiplied with weights, not with codes"
    return needs_float32_sums(spec, options)


SUMS: Final = {"sum_squares": 1, "moments": 2}
"""Sums of a token, by the kernel that makes them."""

LINEAR: Final = frozenset(("turn_block", *(kernel.name for kernel in PRODUCTS)))
"""Kernels whose outputs are linear in what they read as ``x``, so that a token's scale may be applied after them."""

REWRITE: Final = Rewrite(
    name=NORM_SCALES,
    summary="Sums of squares of a norm travel with the partial sums of the product that follows, which is scaled.",
    source="FlashNorm (Graef et al., arXiv 2407.09577): RMSNorm's scale deferred past the matrix product",
    position=10,
    apply=_apply,
    invalid=_invalid,
    holds_tiles=lambda spec: spec.norm == "layer",
)
