"""Grouped-query attention: projections, rotation, KV cache, scores, softmax, values and output.

Heads are partitioned across the columns of the region, and KV-cache entries across its rows.

- **Decode, and prefill with thin GEMM:** every PE has all tokens of the phase. Sums over rows and
  columns are all-reduces, ten per layer as in WaferLLM's decode. Scores are added up inside each
  head group (the columns that share the features of a head).
- **Prefill with MeshGEMM:** tokens are partitioned across rows. Blocks of the cache travel along
  the ring of each column, and each PE keeps running maxima and sums.

Sources: He et al., WaferLLM, OSDI 2025, for the placement; Liu et al., Ring Attention, arXiv
2310.01889, for the ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from wse.compiler.lowering.feed_forward import apply_gate
from wse.compiler.lowering.linear import project, project_to_stream
from wse.compiler.lowering.mesh_gemm import align, dist_gemm_t, mesh_gemm, moving_copy, moving_operand
from wse.compiler.lowering.norm import normalise_all_heads, normalise_heads
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_users
from wse.compiler.lowering.softmax import attend, divide_by_sums, softmax_operands
from wse.compiler.lowering.sums import all_reduce, reduce_in_groups
from wse.compiler.options import MODEL
from wse.compiler.passes.tiling.vector_tiles import frequencies_name
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.models.op import Op
from wse.program.isa.operands import PICO
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.patterns import CacheShift
from wse_mappings.patterns.rings import ring_shift
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival


def qkv(c: Context, op: Op) -> None:
    """Lower the query, key and value projections to steps, with the norms and rotation of heads.

    The input is the normalised hidden vector; the outputs are queries, new keys and new values.

    1. Project to queries, keys and values side by side, and to gates if the model has them.
    2. Split the result into heads. Rotate queries and keys unless a norm with gains comes first.
    3. Normalise the heads if the model does so. After an RMS norm, rotate queries and keys.
    4. Scale queries by their position if the model does so in this layer.
    """
    H, Hk, _, F = c.heads
    widths = _widths(c)
    d, M, N = c.cut.hidden_per_pe, c.tokens, sum(widths)
    # 1. Project.
    projected = c.temp("qkv", M * N, "acc")
    project(c, c.normed_hidden, op.weights, widths, projected, d, bias=c.spec.qkv_bias)
    q, k = c.temp("q", M * H * F, "act"), c.temp("k_new", M * Hk * F, "act")
    v, sizes = c.temp("v_new", M * Hk * F, "act"), {"Hq": H, "Hk": Hk, "F": F}
    rotary = c.cut.heads.rotated > 0 and c.spec.layers[op.layer].rotary
    queries_and_keys, b = [(q, H), (k, Hk)], c.builder
    is_plain = not c.spec.attention_gate and not c.spec.keys_as_values
    rotates_first = rotary and not c.spec.has_head_gains and is_plain
    # 2. Split into heads, and rotate.
    if not is_plain:
        for x, first in ((q, 0), (k, H * F), (v, (H if c.spec.keys_as_values else H + Hk) * F)):
            part = SymAddress(buffer=projected, offset=first)
            b.compute("store_part", out=x, x=part, M=M, n=H * F if x is q else Hk * F, stride=N)
    elif rotates_first:
        with over_users(c) as user:
            heads: dict[str, Any] = {"q": user.at(q, H * F), "k": user.at(k, Hk * F), "v": user.at(v, Hk * F)}
            b.compute("rope", x=user.at(projected, N), M=user.tokens, **heads, **sizes, **rotation(c, op.layer))
    else:
        b.compute("split_heads", x=projected, q=q, k=k, v=v, M=M, **sizes)
    # 3. Normalise. An L2 norm has no gain per feature, so it may follow the rotation.
    gains, values = [f"layers.{op.layer}.{name}_norm" for name in "qk"], [(v, Hk)] if c.spec.value_norm else []
    if c.spec.head_norm == "rms":
        normalise_heads(c, queries_and_keys + values, [*gains, ""])
    elif c.spec.head_norm == "rms_all":
        normalise_all_heads(c, queries_and_keys, gains)
    for x, count in queries_and_keys if rotary and not rotates_first else []:
        with over_users(c) as user:
            b.compute("rotate", x=user.at(x, count * F), M=user.tokens, H=count, F=F, **rotation(c, op.layer))
    if c.spec.head_norm == "l2" and rotary:
        normalise_heads(c, queries_and_keys, ["", ""])
    if values and c.spec.head_norm != "rms":
        normalise_heads(c, values, [""])
    # 4. Scale by position.
    position_scale = c.spec.position_scale
    if position_scale is not None and position_scale.rotary == rotary:
        scale = {"tokens": position_scale.floor_tokens, "first": position_scale.first}
        scale["coefficient_pico"] = round(PICO * position_scale.coefficient)
        with over_users(c) as user:
            b.compute("scale_queries", x=user.at(q, H * F), M=user.tokens, n=H * F, **scale)


def _widths(c: Context) -> tuple[int, ...]:
    """Return how many features of queries, keys, values and gates a column projects per token.

    Values and gates are left out if they have no projection.
    """
    H, Hk, _, F = c.heads
    values, gates = [] if c.spec.keys_as_values else [Hk * F], [H * F] if c.spec.attention_gate else []
    return (H * F, Hk * F, *values, *gates)


def rotation(c: Context, layer: int) -> dict[str, Any]:
    """Return the operands that kernels need to rotate a head's features (rotary embedding).

    The kernels rotate the first ``c.cut.heads.rotated`` features of each head on a column.

    Args:
        c: Context of the phase being lowered.
        layer: Index of the layer, which must use rotary embeddings.

    Returns:
        Keyword arguments for `PhaseBuilder.compute`: kernel operands by name.
    """
    rope = c.spec.rope_of(c.spec.layers[layer])
    assert rope is not None
    multiplier_pico = round(PICO * rope.multiplier)
    numbers = {"R": c.cut.heads.rotated, "multiplier_pico": multiplier_pico, "turned": 0}
    return {"frequency": c.tile(frequencies_name(c.spec, c.spec.layers[layer])), **numbers}


def attention(c: Context, op: Op) -> None:
    """Add the steps that compute the result of each query head from queries and the KV cache.

    The new keys and values are appended to the cache first. The result is partitioned across PEs in
    the same way as the queries.
    """
    _, Hk, _, F = c.heads
    capacity = ceil_div(c.options.context, c.cut.rows)
    entry = Hk * F
    caches = [c.cache(f"layers.{op.layer}.{n}_cache", capacity * entry) for n in ("k", "v")]
    new = [c.temp(name, c.tokens * entry, "act") for name in ("k_new", "v_new")]
    append(c, caches, new, (entry, entry), capacity)
    if c.own_weights and c.spec.kv_head_count == 1:
        _attend_skewed(c, op, caches, capacity)
    elif c.on_mesh:
        _attend_on_ring(c, op, caches, capacity)
    else:
        _attend_replicated(c, op, caches, capacity)


def append(
    c: Context,
    caches: Sequence[SymAddress],
    new: Sequence[SymAddress | SymBuffer],
    entries: tuple[int, int],
    capacity: int,
) -> None:
    """Append the new keys and values to the KV cache.

    In decode, the cache is first shifted: entries move from row to row of PEs to free space on the
    last row. Nothing is appended if only layers or a single matrix product are compiled, instead of
    a whole model.

    Args:
        c: Context of the phase being lowered.
        caches: Addresses of the key cache and the value cache.
        new: New keys and new values.
        entries: Number of elements in a key entry and in a value entry.
        capacity: Maximum number of entries per row.
    """
    b = c.builder
    if c.options.scope != MODEL:
        return
    with over_users(c) as user:
        if c.decodes and c.cut.rows > 1:
            for cache, elements in zip(caches, entries, strict=True):
                b.transfer(CacheShift, cache, axis=COLUMNS, elements=elements)
        b.compute(
            "kv_append",
            k=user.at(new[0], entries[0]),
            v=user.at(new[1], entries[1]),
            k_cache=caches[0],
            v_cache=caches[1],
            E=entries[0],
            Ev=entries[1],
            capacity=capacity,
            tokens=1 if c.decodes else ceil_div(c.chunk, c.cut.rows),
            stride=c.cut.rows if c.verifies else 1,
        )


def output(c: Context, op: Op) -> None:
    """Lower the output projection of attention to steps, and add it to the residual stream.

    The input consists of the attention results of all heads, which are partitioned across the
    columns of PEs. If the model has gates, they multiply the results first.
    """
    H, _, _, F = c.heads
    attended, biased = c.temp("attended", c.tokens * H * F, "act"), c.spec.output_bias
    if c.spec.attention_gate:
        stride = sum(_widths(c))
        gate = SymAddress(buffer=c.temp("qkv", c.tokens * stride, "acc"), offset=stride - H * F)
        apply_gate(c, attended, gate, n=H * F, stride=stride, gates=H * F)
    project_to_stream(c, op, attended, H * F, bias=biased, column_range=c.cut.attention)


def _attend_replicated(c: Context, op: Op, caches: list[SymAddress], capacity: int) -> None:
    """Add the steps of attention for decode, and for prefill by thin GEMM.

    In thin GEMM, a matrix product, tokens are not divided over PEs: every row of PEs has the
    queries of all tokens of a prompt chunk. It computes their scores for its own part of the KV
    cache.

    Args:
        c: Context of the phase being lowered.
        op: Attention op.
        caches: Addresses of the key cache and the value cache.
        capacity: Maximum number of cache entries per row of PEs.
    """
    H, Hk, queries_per_kv, F = c.heads
    M, row = c.tokens, SymNumber(per_slot=H)
    q, scores = c.temp("q", M * H * F, "act"), c.temp("scores", M * H * capacity, "acc")
    sizes = {"Hk": Hk, "queries_per_kv": queries_per_kv, "F": F, "capacity": capacity, "add": 0}
    with over_users(c) as user:
        operands: dict[str, Any] = {"q": user.at(q, H * F), "k": caches[0], "out": user.at(scores, row)}
        c.builder.compute("attention_scores", M=user.tokens, T=SymNumber(per_slot=1), **operands, **sizes)
    attend(c, op, scores, caches[1], F, capacity)


def _attend_on_ring(c: Context, op: Op, caches: list[SymAddress], capacity: int) -> None:
    """Lower attention to steps, for prefill by MeshGEMM: keys and values move along columns.

    The tokens of the chunk are partitioned across P rows. In each of P rounds:

    1. Compute partial scores with the current block of keys, while sending keys and values to the
       next PE on the ring.
    2. Add up the scores over the columns that store features of the same head.
    3. Update the running softmax maxima and sums, and the weighted values.

    After the last round, divide by the sums.

    Args:
        c: Context of the phase being lowered.
        op: Attention op.
        caches: Addresses of the key cache and the value cache.
        capacity: Maximum number of cache entries per row of PEs.
    """
    H, Hk, queries_per_kv, F = c.heads
    M, P, b = c.tokens, c.cut.rows, c.builder
    sizes: dict[str, Any] = {"M": M, "Hk": Hk, "queries_per_kv": queries_per_kv, "F": F, "T": SymNumber(per_slot=1)}
    block = SymNumber(per_slot=Hk * F)
    q = c.temp("q", M * H * F, "act")
    scores = c.temp("scores", M * H * capacity, "acc")
    maxima, sums = c.temp("maxima", M * H, "f32"), c.temp("ring_sums", M * H, "f32")
    attended_sums = c.temp("mixed", M * H * F, "acc")
    keys, values = (
        moving_copy(c, name, cache, block, capacity * Hk * F) for name, cache in zip("kv", caches, strict=True)
    )
    shift = c.patterns.get(ring_shift, P, c.cut.cols)
    with b.loop(P):
        with b.overlap():  # 1
            b.compute("attention_scores", q=q, k=keys.current, out=scores, capacity=capacity, add=0, **sizes)
            for operand in (keys, values):
                b.line(shift, COLUMNS, operand.current, block, target=operand.next)
        reduce_in_groups(c, scores, SymNumber(per_slot=M * H))  # 2
        softmax = softmax_operands(c, op, scores, SymNumber(per_slot=M * H))
        b.compute(  # 3
            "attention_online",
            scores=scores,
            v=values.current,
            maxima=maxima,
            sums=sums,
            out=attended_sums,
            round=SymNumber(per_round=1),
            ring=P,
            **sizes,
            **softmax,
        )
    divide_by_sums(c, op, attended_sums, sums, maxima, F)


def _attend_skewed(c: Context, op: Op, caches: list[SymAddress], capacity: int) -> None:
    """Lower attention with a single KV head to distributed matrix products (prefill by MeshGEMM).

    This form is used if prefill has its own copy of the weights, in the layout that MeshGEMM needs.
    Queries, keys and values are then matrices that are partitioned across the rows and columns of
    PEs.

    1. Compute the scores with dist-GEMM-T, a matrix product with a transposed operand.
    2. Compute the softmax; its maxima and sums are combined along rows.
    3. Multiply the softmax weights by the values with MeshGEMM.

    Args:
        c: Context of the phase being lowered.
        op: Attention op.
        caches: Addresses of the key cache and the value cache.
        capacity: Maximum number of cache entries per row of PEs.
    """
    H, _, _, F = c.heads
    rows, b = c.tokens * H, c.builder
    T, block, tile = SymNumber(per_slot=1), SymNumber(per_slot=F), SymNumber(per_slot=rows)
    scores = c.temp("scores", rows * capacity, "acc")
    partial = c.temp("t_partial", rows * capacity, "acc", "buffers")
    q, keys = c.temp("q", rows * F, "act"), moving_copy(c, "k", caches[0], block, capacity * F)
    # 1. Scores.
    dist_gemm_t(c, "matmul_act", q, keys, partial, scores, rows, F, T, transposed=True)
    # 2. Softmax.
    maxima, sums = c.temp("maxima", rows, "f32"), c.temp("sums", rows, "f32")
    softmax = softmax_operands(c, op, scores, tile) | {"M": c.tokens, "H": H, "T": T}
    b.compute("attention_max_by_column", scores=scores, out=maxima, **softmax)
    all_reduce(c, ROWS, maxima, rows, Arrival.MAX)
    exps, spare = (c.temp(f"attention_weights{suffix}", rows * capacity, "act") for suffix in ("", "_spare"))
    b.compute("attention_exp_by_column", scores=scores, maxima=maxima, out=exps, sums=sums, **softmax)
    all_reduce(c, ROWS, sums, rows)
    # 3. Values.
    weights, values = align(
        c, (moving_operand(exps, spare, tile), ROWS), (moving_copy(c, "v", caches[1], block, capacity * F), COLUMNS)
    )
    attended_sums = c.temp("mixed", rows * F, "acc")
    mesh_gemm(c, "matmul_act", weights, values, attended_sums, rows, T, F, F)
    divide_by_sums(c, op, attended_sums, sums, maxima, F)


OPS: Final = {"qkv": qkv, "attention": attention, "output": output}
"""Lowering function of each kind of op."""
