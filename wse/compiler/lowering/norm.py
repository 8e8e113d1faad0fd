"""Normalisation of the residual stream and of heads: sums over features, then scaling.

A LayerNorm needs only one all-reduce: its variance is the mean of the squares minus the square of
the mean, in float32. Subtracting the mean first would need two. The sums of squares of heads are
added up over the columns of their head group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import sends_choice, stream_before_block
from wse.compiler.lowering.sums import all_reduce, reduce_in_groups
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.op import Op
from wse.program.isa.operands import ATTO
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.layer_parts import BLOCK


def norm(c: Context, op: Op) -> None:
    """Lower the norm of the residual stream before attention or a feed-forward block to steps.

    A feed-forward block that is parallel to attention reads the stream before attention.

    If a feed-forward block is split between stages (parts of the model on different PEs), each of
    these stages normalises the same input. There is one exception: a first stage that sends its
    selection of experts also sends the normalised input, and the next stages only copy it.
    """
    if op.parts.first < BLOCK.first or (op.parts.first == BLOCK.first and not c.spec.parallel_blocks):
        _normalise(c, op, c.stream, c.normed_hidden)
    elif op.parts.first > BLOCK.first and sends_choice(c, op.layer):
        normed = c.normed_hidden
        c.builder.compute("copy", out=normed, x=stream_before_block(c), n=c.tokens * c.cut.hidden_per_pe)
    else:
        _normalise(c, op, stream_before_block(c), c.normed_hidden)


def block_input(c: Context, op: Op) -> None:
    """Add the step that copies the input of a block, in models that do not normalise this input."""
    is_parallel = c.spec.parallel_blocks and op.parts.first >= BLOCK.first
    x = stream_before_block(c) if is_parallel else c.stream
    c.builder.compute("copy", out=c.normed_hidden, x=x, n=c.tokens * c.cut.hidden_per_pe)


def unit_norm(c: Context, op: Op) -> None:
    """Lower the norm of a router's input to steps: division by the Euclidean length, and a gain.

    The kernel computes x / sqrt(sum(x²) / size + eps). With a size of 1 instead of the number of
    features n, it divides by the Euclidean length. The epsilon is multiplied by n, because it is added
    to the sum of squares instead of their mean.
    """
    _normalise(c, op, c.stream, c.normed_hidden, rms_eps(c, 1, c.spec.norm_eps * c.spec.hidden_size))


def block_sum(c: Context, op: Op) -> None:
    """Lower the sum of the outputs of experts and shared expert, each normalised, to steps.

    One all-reduce combines the sums of squares of both outputs.
    """
    d, M, b = c.cut.hidden_per_pe, c.tokens, c.builder
    outputs = [c.temp(name, M * d, "act") for name in ("made_by_block", "made_by_shared")]
    sums = c.temp("sums", 2 * M, "f32")
    parts = [SymAddress(buffer=sums, offset=i * M) for i in range(2)]
    for x, part in zip(outputs, parts, strict=True):
        b.compute("sum_squares", x=x, sums=part, M=M, K=d)
    all_reduce(c, ROWS if c.on_mesh else COLUMNS, sums, 2 * M)
    operands = rms_eps(c, c.spec.hidden_size) | {"M": M, "K": d, "offset": int(c.spec.norm_unit_offset)}
    for x, part, gain in zip(outputs, parts, op.weights, strict=True):
        b.compute("rms_scale", x=x, sums=part, gain=c.hidden_vector(gain, "gain"), out=x, **operands)
    b.compute("add", x=outputs[0], addend=outputs[1], n=M * d)


def post_norm(c: Context, op: Op) -> None:
    """Lower the norm of a block's output to steps, and add the result to the residual stream.

    A block is the attention or the feed-forward part of a layer.
    """
    n = c.tokens * c.cut.hidden_per_pe
    output = c.temp("made_by_block", n, "act")
    _normalise(c, op, SymAddress(buffer=output), output)
    c.builder.compute("add", x=c.stream, addend=output, n=n)


def rms_eps(c: Context, size: int, eps: float | None = None) -> dict[str, int]:
    """Return the kernel operands ``size`` and ``eps_atto`` for a norm over ``size`` features.

    ``eps_atto`` is the epsilon of the norm (a small number that avoids division by zero), in units
    of 1e-18. By default, it is the epsilon of the model's norms.
    """
    return {"size": size, "eps_atto": round((c.spec.norm_eps if eps is None else eps) * ATTO)}


def _normalise(c: Context, op: Op, x: SymAddress, out: SymBuffer, size_and_eps: dict[str, int] | None = None) -> None:
    """Add the steps that normalise hidden vectors: local sums, all-reduce and scaling.

    Args:
        c: Context of the phase being lowered.
        op: Norm op, with the name of its gain.
        x: Address of the vectors.
        out: Buffer for the normalised vectors.
        size_and_eps: Result of `rms_eps`; by default that of the model's norms.
    """
    d, M, b = c.cut.hidden_per_pe, c.tokens, c.builder
    gain = c.hidden_vector(op.weights[0], "gain")
    axis, operands = ROWS if c.on_mesh else COLUMNS, size_and_eps or rms_eps(c, c.spec.hidden_size)
    offset = int(c.spec.norm_unit_offset)
    if c.spec.norm == "layer":
        biased = c.spec.has_norm_bias
        bias = c.hidden_vector(f"{op.weights[0]}_bias", "bias") if biased else gain  # not read if there is none
        sums = c.temp("moments", 2 * M, "f32")
        b.compute("moments", x=x, sums=sums, M=M, K=d)
        all_reduce(c, axis, sums, 2 * M)
        operands |= {"offset": offset, "biased": int(biased)}
        b.compute("layer_scale", x=x, sums=sums, gain=gain, bias=bias, out=out, M=M, K=d, **operands)
        return
    sums = c.temp("sums", M, "f32")
    b.compute("sum_squares", x=x, sums=sums, M=M, K=d)
    all_reduce(c, axis, sums, M)
    b.compute("rms_scale", x=x, sums=sums, gain=gain, out=out, M=M, K=d, offset=offset, **operands)


def normalise_heads(c: Context, heads: Sequence[tuple[SymBuffer, int]], gains: Sequence[str]) -> None:
    """Add the steps that divide each head's vector by its root mean square and multiply by a gain.

    The vectors are changed in place.

    Args:
        c: Context of the phase being lowered.
        heads: Buffers ``[tokens, count, F]``, each with its number of heads.
        gains: Names of the gain vectors, one per buffer; "" if the heads are only normalised.
    """
    F, M, b = c.heads[3], c.tokens, c.builder
    rows = [M * count for _, count in heads]
    sums = c.temp("head_sums", sum(rows), "f32")
    parts = [SymAddress(buffer=sums, offset=sum(rows[:i])) for i in range(len(rows))]
    for (x, _), part, n in zip(heads, parts, rows, strict=True):
        b.compute("sum_squares", x=x, sums=part, M=n, K=F)
    reduce_in_groups(c, sums, sum(rows))
    operands, offset = rms_eps(c, c.spec.head_size), int(c.spec.norm_unit_offset)
    for i, ((x, _), part, n) in enumerate(zip(heads, parts, rows, strict=True)):
        if gains[i]:
            gain = c.tile(gains[i])
            b.compute("rms_scale", x=x, sums=part, gain=gain, out=x, M=n, K=F, offset=offset, **operands)
        else:
            b.compute("l2_scale", x=x, sums=part, M=n, K=F, **operands)


def normalise_all_heads(c: Context, heads: Sequence[tuple[SymBuffer, int]], gains: Sequence[str]) -> None:
    """Add the steps that normalise the vector of all heads together, in place.

    The vector is divided by its root mean square and multiplied by a gain. The heads are
    partitioned across columns, so sums of squares are added up along rows. If several columns store
    the same KV head, every copy counts in the sum and in the number of features.

    Args:
        c: Context of the phase being lowered.
        heads: Buffers ``[tokens, count, F]`` of the queries and of the keys, each with its number
            of heads.
        gains: Names of the gain vectors, one per buffer.
    """
    F, M, b = c.heads[3], c.tokens, c.builder
    sums = c.temp("head_sums", len(heads) * M, "f32")
    parts = [SymAddress(buffer=sums, offset=i * M) for i in range(len(heads))]
    for (x, count), part in zip(heads, parts, strict=True):
        b.compute("sum_squares", x=x, sums=part, M=M, K=count * F)
    all_reduce(c, ROWS, sums, len(heads) * M)
    copies, offset = c.cut.heads.copies, int(c.spec.norm_unit_offset)
    sizes = [c.spec.head_count * c.spec.head_size, copies * c.spec.kv_head_count * c.spec.head_size]
    for (x, count), part, gain, size in zip(heads, parts, gains, sizes, strict=True):
        b.compute(
            "rms_scale", x=x, sums=part, gain=c.tile(gain), out=x, M=M, K=count * F, offset=offset, **rms_eps(c, size)
        )


OPS: Final = {
    "norm": norm,
    "unit_norm": unit_norm,
    "block_sum": block_sum,
    "post_norm": post_norm,
    "block_input": block_input,
}
"""Lowering function of each kind of op."""
