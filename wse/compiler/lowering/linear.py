"""The linear layers, whatever holds their weights: in place, moving on the mesh, or prefill's own copy moving.

Weights in place are MeshGEMV and thin GEMM. On the mesh with decode's tiles a copy of them moves: projections that
contract over rows are aligned at run time, those back are dist-GEMM-T. Prefill's own tiles are stored aligned, so
that only activations are, once for all products with them; they move themselves, and are back after a whole turn.
Source: He et al., WaferLLM, OSDI 2025 (arXiv 2502.04563).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.context import Context
from wse.compiler.lowering.local_product import local_product
from wse.compiler.lowering.mesh_gemm import MovingOperand, align, dist_gemm_t, mesh_gemm, moving_copy, moving_operand
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.graph import Op
from wse.program.steps import COLUMNS, ROWS


def project(
    c: Context,
    x: SymBuffer,
    tensors: Sequence[str],
    widths: Sequence[int],
    out: SymBuffer,
    K: int,
    *,
    bias: bool = False,
) -> None:
    """Lower out[tokens, sum of widths] = x @ weights, stored side by side, plus biases.

    x is overwritten where it moves.
    """
    N, M = sum(widths), c.tokens
    if c.own_weights:
        _own_products(c, x, tensors, widths, out, K)
    elif c.on_mesh:
        w = c.tile("+".join(tensors))
        a, b = align(c, (_moving_activations(c, x, "a_spare", M * K), ROWS), (moving_copy(c, "b", w, K * N), COLUMNS))
        mesh_gemm(c, "matmul", a, b, out, M, K, N, N)
    else:
        local_product(c, x, c.tile("+".join(tensors)), out, K, N, stride=N, out_stride=N)
        all_reduce(c, COLUMNS, out, M * N)
    if bias:
        biases = c.tile("+".join(f"{tensor}_bias" for tensor in tensors))
        c.builder.compute("add_bias", x=out, bias=biases, M=M, n=N)


def into_stream(
    c: Context, x: SymBuffer, tensor: str, K: int, *, bias: bool = False, within: tuple[int, int] | None = None
) -> None:
    """Add x @ weights to the residual stream, where x is divided over columns.

    ``within``: (first, columns) of those that x is cut over, in place; None: all.
    """
    d, M = c.cut.hidden_per_pe, c.tokens
    out = c.temp("projected_back", M * d, "acc")
    if c.own_weights:
        _own_products(c, x, [tensor], [d], out, K)
    elif c.on_mesh:
        partial = c.temp("t_partial", M * d, "acc", "buffers")
        dist_gemm_t(c, "matmul", x, moving_copy(c, "b", c.tile(tensor), K * d), partial, out, M, K, d, transposed=False)
    else:
        local_product(c, x, c.tile(tensor), out, K, d, stride=d, out_stride=d)
        all_reduce(c, ROWS, out, M * d, over_rows=M * c.spec.hidden_size, within=within, to_all=True)
    join_stream(c, out, tensor, bias=bias)


def join_stream(c: Context, out: SymBuffer, tensor: str, *, bias: bool) -> None:
    """Add the complete product with a tensor to the residual stream.

    Where what a block makes is normalised first, it is left to `wse.compiler.lowering.norm.post_norm`.
    """
    d, M = c.cut.hidden_per_pe, c.tokens
    if c.parts.cuts_block and c.stream != c.stream_of_parts:  # the first parts keep it as it was
        for copied in (c.stream_before_block, c.stream_of_parts):
            c.builder.compute("copy", out=copied, x=c.stream, n=M * d)
        c.stream = c.stream_of_parts
    if bias:
        c.builder.compute("add_bias", x=out, bias=c.hidden_vector(f"{tensor}_bias", "bias"), M=M, n=d)
    if c.spec.post_norms:
        c.builder.compute("store", out=c.temp("made_by_block", M * d, "act"), x=out, n=M * d)
    else:
        c.builder.compute("residual_add", x=c.stream, addend=out, n=M * d)


def _own_products(
    c: Context, x: SymBuffer, tensors: Sequence[str], widths: Sequence[int], out: SymBuffer, K: int
) -> None:
    """Lower products with a copy of the weights: align x once, then rotate the rings once per weight."""
    P, M, first = c.cut.rows, c.tokens, 0
    (a,) = align(c, (_moving_activations(c, x, f"{x.name}_spare", M * K), ROWS))
    for tensor, n in zip(tensors, widths, strict=True):
        w, spare = c.own_tile(tensor), c.temp("w_spare", K * n, "wgt", "buffers")
        columns = SymAddress(buffer=out, offset=first)
        mesh_gemm(c, "matmul", a, moving_operand(w, spare, K * n), columns, M, K, n, sum(widths))
        if P % 2:
            c.builder.compute("copy_weights", out=w, x=spare, n=K * n)
        a, first = a.after_rounds(P), first + n


def _moving_activations(c: Context, x: SymBuffer, name: str, elements: int) -> MovingOperand:
    """Return the activations as an operand that moves between their own buffer and a spare one."""
    return moving_operand(x, c.temp(name, elements, "act", "buffers"), elements)


def product(c: Context, op: Op) -> None:
    """Lower a single product, from vectors divided like the residual stream to vectors divided over columns."""
    d, f, M = c.cut.hidden_per_pe, c.cut.ffn_per_pe, c.tokens
    project(c, c.temp("operand", M * d, "act"), op.weights, (f,), c.temp("product", M * f, "acc"), d)


OPS: Final = {"product": product}
"""Lowerings by kind of op."""
