"""The distributed products: MeshGEMV and thin GEMM (weights stay, partials reduce), MeshGEMM, dist-GEMM-T."""

from __future__ import annotations

from wse.compiler.lower.context import Context
from wse.compiler.state import At, Num, SymBuffer
from wse.program import COLUMNS, ROWS
from wse_mappings.patterns.ring_reduce import ring_keep, ring_reduce
from wse_mappings.patterns.ring_shift import ring_align, ring_shift


def stationary(c: Context, x: At | SymBuffer, w: SymBuffer, out: SymBuffer, K: int, N: int, axis: int) -> None:
    """out[tokens, N] = all-reduce along ``axis`` of x[tokens, K] @ w[K, N]: every PE multiplies its own tile."""
    M = c.tokens
    c.builder.compute("matmul", x=x, w=w, out=out, M=M, K=K, N=N, k_stride=N, n_stride=1, add=0)
    c.all_reduce(axis, out, M * N)


def mesh_gemm(c: Context, x: SymBuffer, w: SymBuffer, out: SymBuffer, K: int, N: int) -> None:
    """out = X @ W on a square: X cut in tokens by rows and K by columns, W in K by rows and N by columns.

    Both are aligned by ring steps, then multiplied and shifted ``length`` times; w itself stays where it is. x is
    overwritten.
    """
    P, M, b = c.cut.rows, c.tokens, c.builder
    spare = c.temp("a_spare", M * K, "act", "buffers")
    moving = [c.temp(f"b_moving_{i}", K * N, "wgt", "buffers") for i in range(2)]
    b.compute("copy_weights", out=moving[0], x=w, n=K * N)
    a_now, a_next = At(buffer=x, other=spare), At(buffer=spare, other=x)
    b_now, b_next = At(buffer=moving[0], other=moving[1]), At(buffer=moving[1], other=moving[0])
    if P > 1:
        align = c.patterns.get(ring_align, P)
        with b.loop(P // 2), b.together():
            b.line(align, ROWS, a_now, M * K, target=a_next)
            b.line(align, COLUMNS, b_now, K * N, target=b_next)
    if (P // 2) % 2 == 1:
        a_now, a_next, b_now, b_next = a_next, a_now, b_next, b_now
    shift = c.patterns.get(ring_shift, P, P)
    with b.loop(P), b.together():
        b.compute("matmul", x=a_now, w=b_now, out=out, M=M, K=K, N=N, k_stride=N, n_stride=1, add=Num(per_round=1))
        b.line(shift, ROWS, a_now, M * K, target=a_next)
        b.line(shift, COLUMNS, b_now, K * N, target=b_next)


def mesh_gemm_t(c: Context, x: SymBuffer, w: SymBuffer, out: SymBuffer, K: int, N: int) -> None:
    """out = X @ W on a square with W held as decode wants it: K by columns, N by rows (dist-GEMM-T).

    In round t a row multiplies with the tiles of the row t places back on the ring and sums into that column.
    """
    P, M, b = c.cut.rows, c.tokens, c.builder
    partial = c.temp("t_partial", M * N, "acc", "buffers")
    moving = [c.temp(f"b_moving_{i}", K * N, "wgt", "buffers") for i in range(2)]
    b.compute("copy_weights", out=moving[0], x=w, n=K * N)
    now, after = At(buffer=moving[0], other=moving[1]), At(buffer=moving[1], other=moving[0])
    shift = c.patterns.get(ring_shift, P, P)
    reduce_, keep = c.patterns.get(ring_reduce, P), c.patterns.get(ring_keep, P)
    with b.loop(P):
        with b.together():
            b.compute("matmul", x=x, w=now, out=partial, M=M, K=K, N=N, k_stride=N, n_stride=1, add=0)
            b.line(shift, COLUMNS, now, K * N, target=after)
        b.line(reduce_, ROWS, partial, M * N)
        b.line(keep, ROWS, partial, M * N, target=out)


def into_stream(c: Context, x: SymBuffer, w: SymBuffer, K: int) -> None:
    """Add x @ w to the residual stream, where x is cut over columns and the product over rows again."""
    d, M = c.cut.d, c.tokens
    projected = c.temp("projected_back", M * d, "acc")
    if c.on_mesh:
        mesh_gemm_t(c, x, w, projected, K, d)
    else:
        stationary(c, x, w, projected, K, d, ROWS)
    c.builder.compute("residual_add", x=c.stream, addend=projected, n=M * d)
