"""Linear layers: with weights in place, with moving copies, or with weights stored for prefill.

- In place: MeshGEMV in decode, thin GEMM in prefill.
- On the mesh with decode's tiles, a copy of the tiles moves. Projections that contract over rows
  are aligned at run time (MeshGEMM); the products back to hidden features use dist-GEMM-T.
- On the mesh with prefill's own tiles, which are stored aligned, only activations are aligned, once
  for all products that use them. The tiles themselves move and are back in place after a full round
  of the ring.

Source: He et al., WaferLLM, OSDI 2025 (arXiv 2502.04563).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wse.compiler.lowering.local_product import local_product
from wse.compiler.lowering.mesh_gemm import MovingOperand, align, dist_gemm_t, mesh_gemm, moving_copy, moving_operand
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.split_block import keeps_input, stream_before_block, stream_of_parts
from wse.compiler.lowering.sums import all_reduce
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.op import Op
from wse.program.isa.operands import PICO
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
    """Add the steps for out[tokens, N] = x @ weights + biases, for several weight matrices.

    The columns of the matrices are concatenated in the order given.

    Args:
        c: Context of the phase being lowered.
        x: Activations, partitioned across PEs like the hidden vector. MeshGEMM overwrites them.
        tensors: Names of the weight matrices.
        widths: Number of outputs per column of each matrix; N is their sum.
        out: Buffer of the products.
        K: Number of inputs on each PE.
        bias: Whether the matrices have biases.
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


def project_to_stream(
    c: Context, op: Op, x: SymBuffer, K: int, *, bias: bool = False, column_range: tuple[int, int] | None = None
) -> None:
    """Add the steps that multiply activations by weights, and add the product to the stream.

    The stream is the residual stream. Attention and feed-forward blocks use this function for their
    second product, the output projection.

    Args:
        c: Context of the phase being lowered.
        op: The op, whose last weight is the matrix.
        x: Activations, partitioned across columns.
        K: Number of inputs on each column of PEs.
        bias: Whether there is a bias.
        column_range: First column, and number of columns, over which ``x`` is divided; None for all
            columns.
    """
    d, M, tensor = c.cut.hidden_per_pe, c.tokens, op.weights[-1]
    out = c.temp("projected_back", M * d, "acc")
    if c.own_weights:
        _own_products(c, x, [tensor], [d], out, K)
    elif c.on_mesh:
        partial = c.temp("t_partial", M * d, "acc", "buffers")
        dist_gemm_t(c, "matmul", x, moving_copy(c, "b", c.tile(tensor), K * d), partial, out, M, K, d, transposed=False)
    else:
        local_product(c, x, c.tile(tensor), out, K, d, stride=d, out_stride=d)
        all_reduce(c, ROWS, out, M * d, over_rows=M * c.spec.hidden_size, column_range=column_range, to_all=True)
    add_to_stream(c, op, out, bias=bias)


def add_to_stream(c: Context, op: Op, out: SymBuffer, *, bias: bool) -> None:
    """Add the steps that add the output of a block to the residual stream.

    Some models scale the output first. In layers that normalise it, the output is only stored here;
    `wse.compiler.lowering.norm.post_norm` then normalises and adds it.

    Args:
        c: Context of the phase being lowered.
        op: The last op of the block. Its last weight is the matrix of the product.
        out: The output of the block, a complete product of activations and weights.
        bias: Whether there is a bias.
    """
    d, M = c.cut.hidden_per_pe, c.tokens
    if keeps_input(c) and c.stream != stream_of_parts(c):  # for the other parts of the layer
        for stream_copy in (stream_before_block(c), stream_of_parts(c)):
            c.builder.compute("copy", out=stream_copy, x=c.stream, n=M * d)
        c.stream = stream_of_parts(c)
    if bias:
        c.builder.compute("add_bias", x=out, bias=c.hidden_vector(f"{op.weights[-1]}_bias", "bias"), M=M, n=d)
    if c.spec.residual_scale != 1.0:
        c.builder.compute("scale", x=out, n=M * d, factor_pico=round(PICO * c.spec.residual_scale))
    if c.spec.has_post_norms(c.spec.layers[op.layer]):
        name = "made_by_shared" if op.kind == "shared_down" else "made_by_block"
        c.builder.compute("store", out=c.temp(name, M * d, "act"), x=out, n=M * d)
    else:
        c.builder.compute("residual_add", x=c.stream, addend=out, n=M * d)


def _own_products(
    c: Context, x: SymBuffer, tensors: Sequence[str], widths: Sequence[int], out: SymBuffer, K: int
) -> None:
    """Add the steps of MeshGEMM products whose weights are a second copy, stored only for prefill.

    In MeshGEMM, each row of PEs passes its activations around a ring, and each column its weights.
    Before the first round, the tiles of activations are rotated so that every PE starts with
    matching tiles of both matrices. This is done only once, because after a product with one weight
    matrix all tiles are back where they started. The weights are stored in rotated order.

    Args:
        c: Context of the phase being lowered.
        x: Activations.
        tensors: Names of the weight matrices.
        widths: Number of outputs of each matrix on a column of PEs.
        out: Buffer for the products, which are stored next to each other in each row.
        K: Number of inputs on each PE.
    """
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
    """Prepare activations for MeshGEMM, which moves them to the next PE in every round.

    Each PE receives the activations of the next round in a second buffer, which this function
    requests.

    Args:
        c: Context of the phase being lowered.
        x: Buffer of the activations.
        name: Name of the second buffer.
        elements: Elements per PE.
    """
    return moving_operand(x, c.temp(name, elements, "act", "buffers"), elements)


def product(c: Context, op: Op) -> None:
    """Add the steps for a single matrix product, for requests that compile nothing else.

    The input is divided in the same way as the residual stream; the result is partitioned across
    columns.
    """
    d, f, M = c.cut.hidden_per_pe, c.cut.feed_forward(op.kind).shape[1], c.tokens
    project(c, c.temp("operand", M * d, "act"), op.weights, (f,), c.temp("product", M * f, "acc"), d)


OPS: Final = {"product": product}
"""Lowering function of each kind of op."""
