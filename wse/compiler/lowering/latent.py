"""Multi-head latent attention: the cache stores one latent vector and one rotated key per token.

Prefill and decode both use the absorbed form (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). Each
head's up-projection of keys is applied to the queries without rotation instead of to the keys, so
that queries are compared with latent vectors directly. Attention produces a mixture of latent
vectors, to which the head's up-projection of values is applied.

Vectors are partitioned alternately across columns and across rows, because each product contracts
along the axis that its input is partitioned across:

1. Hidden vectors are partitioned across rows.
2. The source of queries, the rotated key and the latent vector are partitioned across columns.
3. The queries of a row's heads are on that row.
4. The queries of all heads, and the attended latent vectors, are partitioned across columns.
5. The values of a row's heads are on that row.
6. The output of attention is partitioned across columns. It is moved to rows when it is added to
   the residual stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.attention import append, rotation
from wse.compiler.lowering.linear import add_to_stream
from wse.compiler.lowering.local_product import local_product
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_users
from wse.compiler.lowering.softmax import attend
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.passes.tiling.vector_tiles import FIRST, HEADS, WANTED
from wse.compiler.symbolic import SymAddress, SymNumber
from wse.models.attention_traits import Latent
from wse.models.op import Op
from wse.program.isa.operands import ATTO
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.cuts.latent_cut import LatentCut
from wse_mappings.rounding import ceil_div


def compress(c: Context, op: Op) -> None:
    """Add the steps for the first projections of latent attention, whose results all heads share.

    For each token, there are three results:

    - The query source, from which the queries of all heads are computed. It is a compressed vector
      or, in some models, the hidden vector itself. The hidden vector is transposed from rows to
      columns.
    - The rotary key.
    - The latent vector.
    """
    S, R, C = _shared_widths(c)
    d, M, w = c.cut.hidden_per_pe, c.tokens, c.tile("+".join(op.weights))
    normed, out = c.normed_hidden, c.temp("compressed", M * (S + R + C), "acc")
    if _latent(c).q_rank:
        product, width = SymAddress(buffer=out), S + R + C
    else:
        product, width = SymAddress(buffer=out, offset=M * S), R + C
        c.builder.compute(
            "redistribute_block", x=normed, out=out, M=M, K=d, N=S, first_col=c.cut.attention[0], to_rows=0
        )
    local_product(c, normed, w, product, d, width, stride=width, out_stride=width)
    all_reduce(c, COLUMNS, out, M * (S + R + C))
    for biases in op.vectors:
        c.builder.compute("add_bias", x=product, bias=c.tile("+".join(biases)), M=M, n=width)


def norm_latent(c: Context, op: Op) -> None:
    """Add the steps that normalise query sources and latent vectors, and rotate rotary keys.

    The queries of all heads are computed from the query source. The latent vector and the rotary
    key are stored in the KV cache.
    """
    S, R, C = _shared_widths(c)
    M, b, sizes = c.tokens, c.builder, _latent(c)
    compressed, (source, keys, latent) = c.temp("compressed", M * (S + R + C), "acc"), _shared_vectors(c)
    if sizes.q_rank:
        _store_parts(c, SymAddress(buffer=compressed), source, (S, R, C))
    else:
        b.compute("store", out=source, x=compressed, n=M * S)
        _store_parts(c, SymAddress(buffer=compressed, offset=M * S), keys, (R, C))
    vectors = [(source, S, sizes.q_rank), (latent, C, sizes.kv_rank)][-len(op.weights) :]
    sums = c.temp("latent_sums", M * len(vectors), "f32")
    for i, (x, K, _) in enumerate(vectors):
        b.compute("sum_squares", x=x, sums=SymAddress(buffer=sums, offset=i * M), M=M, K=K)
    all_reduce(c, ROWS, sums, M * len(vectors), column_range=c.cut.attention)
    scaling = {"M": M, "eps_atto": round(sizes.norm_eps * ATTO), "offset": int(c.spec.norm_unit_offset)}
    for i, ((x, K, size), gain) in enumerate(zip(vectors, op.weights, strict=True)):
        at = SymAddress(buffer=sums, offset=i * M)
        b.compute("rms_scale", x=x, sums=at, gain=c.tile(gain), out=x, K=K, size=size, **scaling)
    if c.spec.layers[op.layer].rotary:
        with over_users(c) as user:
            b.compute("rotate", x=user.at(keys, R), M=user.tokens, H=1, F=R, **rotation(c, op.layer))


def query(c: Context, op: Op) -> None:
    """Add the steps that compute queries which can be compared with cached latent vectors.

    This is the absorbed form of latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1.2).

    1. On each row of PEs, compute the queries of its heads. Some of their features will be rotated.
    2. Multiply the other features by the up-projection of keys, so that they can be compared with
       latent vectors.
    3. Write both kinds of features into a vector over all heads, with zeros for the heads of other
       rows. The rotary features of all heads come first.
    4. Add up these vectors over the rows, so that every row has the queries of all heads, and
       rotate the rotary features.
    """
    S, R, C = _shared_widths(c)
    per_row, nope, rope, _ = _head_widths(c)
    M, H, b, width = c.tokens, c.spec.head_count, c.builder, per_row * (nope + rope)
    q_nope, q_rope, k_b = op.weights
    row_queries = c.temp("queries_of_row", M * width, "acc")
    queries_to_absorb = c.temp("queries_to_absorb", M * per_row * nope, "act")
    # 1. Queries of the row's heads.
    local_product(
        c, _shared_vectors(c)[0], c.tile(f"{q_nope}+{q_rope}"), row_queries, S, width, stride=width, out_stride=width
    )
    unpadded_elements = M * H * (_latent(c).nope_size + _latent(c).rope_size)
    all_reduce(c, ROWS, row_queries, M * width, over_rows=unpadded_elements, column_range=c.cut.attention)
    _store_parts(c, SymAddress(buffer=row_queries), SymAddress(buffer=queries_to_absorb), (nope,) * per_row, width)
    # 2. Multiply by the up-projection of keys.
    absorbed = c.temp("absorbed", M * per_row * C, "acc")
    for i in range(per_row):
        x = SymAddress(buffer=queries_to_absorb, offset=i * M * nope)
        w = SymAddress(buffer=c.tile(k_b), offset=i * nope * C)
        local_product(c, x, w, SymAddress(buffer=absorbed, offset=i * C), nope, C, stride=C, out_stride=per_row * C)
    # 3. Place among zeros.
    queries, heads = c.temp("queries", M * H * (R + C), "acc"), c.tile(HEADS)
    b.compute(
        "place_rotated",
        x=SymAddress(buffer=row_queries, offset=per_row * nope),
        heads=heads,
        first=c.tile(FIRST),
        feature_ordinals=c.tile(WANTED),
        out=queries,
        M=M,
        H=H,
        Hl=per_row,
        K=rope,
        n=R,
        stride=width,
    )
    b.compute(
        "place_heads",
        x=absorbed,
        heads=heads,
        out=SymAddress(buffer=queries, offset=M * H * R),
        M=M,
        H=H,
        Hl=per_row,
        n=C,
    )
    # 4. Add up and rotate.
    all_reduce(c, COLUMNS, queries, M * H * (R + C))
    q = c.temp("q", M * H * (R + C), "act")
    b.compute("store", out=q, x=queries, n=M * H * (R + C))
    if c.spec.layers[op.layer].rotary:
        with over_users(c) as user:
            b.compute("rotate", x=user.at(q, H * R), M=user.tokens, H=H, F=R, **rotation(c, op.layer))


def attention(c: Context, op: Op) -> None:
    """Lower latent attention to steps, from queries and cache to the latent results of all heads.

    The new rotary keys and latent vectors are appended to the cache first. The result is
    partitioned across the columns of PEs.
    """
    _, R, C = _shared_widths(c)
    M, H = c.tokens, c.spec.head_count
    capacity = ceil_div(c.options.context, c.cut.rows)
    names = (("rotated_key", R), ("latent", C))
    caches = [c.cache(f"layers.{op.layer}.{name}_cache", capacity * entry) for name, entry in names]
    append(c, caches, _shared_vectors(c)[1:], (R, C), capacity)
    scores, q = c.temp("scores", M * H * capacity, "acc"), c.temp("q", M * H * (R + C), "act")
    with over_users(c) as user:
        for i, (cache, F) in enumerate(zip(caches, (R, C), strict=True)):
            c.builder.compute(
                "attention_scores",
                q=user.at(SymAddress(buffer=q, offset=i * M * H * R), H * F),
                k=cache,
                out=user.at(scores, SymNumber(per_slot=H)),
                M=user.tokens,
                Hk=1,
                queries_per_kv=H,
                F=F,
                T=SymNumber(per_slot=1),
                capacity=capacity,
                add=i,
            )
    attend(c, op, scores, caches[1], C, capacity)


def output(c: Context, op: Op) -> None:
    """Lower the output projection of latent attention to steps.

    Each row of PEs processes its own heads.

    1. Select the latent attention results of the row's heads.
    2. Multiply them by the up-projection of values, and add up the products along rows.
    3. Multiply the sums by the output projection, and add up the products along columns. The result
       is partitioned across columns.
    4. Transpose the result, so that it is partitioned across rows like the residual stream, and add
       it to the stream.
    """
    C = _shared_widths(c)[2]
    per_row, _, _, value = _head_widths(c)
    d, h, M, H, b = c.cut.hidden_per_pe, _cut(c).hidden.shape[1], c.tokens, c.spec.head_count, c.builder
    v_b, o = op.weights
    attended, row_attended = c.temp("attended", M * H * C, "act"), c.temp("attended_of_row", per_row * M * C, "act")
    # 1. The row's heads.
    b.compute("pick_heads", x=attended, heads=c.tile(HEADS), out=row_attended, M=M, H=H, Hl=per_row, n=C)
    # 2. Up-projection of values.
    width = per_row * value
    expanded, values = c.temp("values_of_row", M * width, "acc"), c.temp("values", M * width, "act")
    for i in range(per_row):
        x, w = SymAddress(buffer=row_attended, offset=i * M * C), SymAddress(buffer=c.tile(v_b), offset=i * value)
        local_product(c, x, w, SymAddress(buffer=expanded, offset=i * value), C, value, stride=width, out_stride=width)
    all_reduce(c, ROWS, expanded, M * width, over_rows=M * H * _latent(c).value_size, column_range=c.cut.attention)
    b.compute("store", out=values, x=expanded, n=M * width)
    # 3. Output projection.
    on_columns, output_to_transpose = c.temp("output_on_columns", M * h, "acc"), c.temp("output_to_turn", M * h, "act")
    local_product(c, values, c.tile(o), on_columns, width, h, stride=h, out_stride=h)
    all_reduce(c, COLUMNS, on_columns, M * h)
    b.compute("store", out=output_to_transpose, x=on_columns, n=M * h)
    # 4. Transpose, and add to the residual stream.
    addend = c.temp("projected_back", M * d, "acc")
    b.compute(
        "redistribute_block", x=output_to_transpose, out=addend, M=M, K=h, N=d, first_col=c.cut.attention[0], to_rows=1
    )
    all_reduce(c, ROWS, addend, M * d, over_rows=M * c.spec.hidden_size, column_range=c.cut.attention, to_all=True)
    add_to_stream(c, op, addend, bias=bool(op.vectors))


def _store_parts(c: Context, x: SymAddress, out: SymAddress, widths: Sequence[int], stride: int = 0) -> None:
    """Add steps that split each token's vector into parts and store them in separate blocks.

    In the input, the parts of a token are side by side. In the output, each block ``[tokens,
    width]`` has one part of all tokens. The elements are rounded to the activation type.

    Args:
        c: Context of the phase being lowered.
        x: Vectors ``[tokens, stride]`` in the accumulator type.
        out: Address of the first block.
        widths: Number of elements in each part.
        stride: Elements from one token's vector to the next; 0 for the sum of the widths.
    """
    M, first = c.tokens, 0
    if M == 1:
        c.builder.compute("store", out=out, x=x, n=sum(widths))
        return
    for width in widths:
        c.builder.compute(
            "store_part",
            out=out.plus(M * first),
            x=x.plus(first),
            M=M,
            n=width,
            stride=stride or sum(widths),
        )
        first += width


def _shared_vectors(c: Context) -> tuple[SymAddress, SymAddress, SymAddress]:
    """Return the addresses of the three vectors per token that all heads of latent attention share.

    Returns:
        Addresses of the query source, the rotary keys, and the latent vectors.
    """
    S, R, C = _shared_widths(c)
    shared_buffer = c.temp("shared", c.tokens * (S + R + C), "act")
    return (
        SymAddress(buffer=shared_buffer),
        SymAddress(buffer=shared_buffer, offset=c.tokens * S),
        SymAddress(buffer=shared_buffer, offset=c.tokens * (S + R)),
    )


def _shared_widths(c: Context) -> tuple[int, int, int]:
    """Return how many features a column of PEs stores of each vector that all heads share.

    Returns:
        Feature counts of the query source (from which the queries of all heads are computed), the
        rotary key, and the latent vector.
    """
    cut = _cut(c)
    return cut.source.shape[1], c.heads[3], cut.latent.shape[1]


def _head_widths(c: Context) -> tuple[int, int, int, int]:
    """Return how many latent-attention heads a row of PEs stores, and the features per head.

    Returns:
        Heads per row; features per head of queries without rotation, rotary queries, and values.
    """
    cut = _cut(c)
    per_row = cut.heads.shape[1]
    return per_row, cut.nope.shape[1] // per_row, cut.rope.shape[1] // per_row, cut.value.shape[1] // per_row


def _cut(c: Context) -> LatentCut:
    """Return how latent attention is partitioned across the PEs of the current region."""
    assert c.cut.latent is not None
    return c.cut.latent


def _latent(c: Context) -> Latent:
    """Return the dimensions of latent attention in the model, such as the latent-vector length."""
    assert c.spec.latent is not None
    return c.spec.latent


OPS: Final = {
    "latent_compress": compress,
    "latent_norm": norm_latent,
    "latent_query": query,
    "latent_attention": attention,
    "latent_output": output,
}
"""Lowering function of each kind of op."""
