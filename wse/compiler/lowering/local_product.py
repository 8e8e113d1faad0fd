"""The product of activations with a PE's own weight tile, without any transfer.

The kernel depends on the coding of the weights and on the number of tokens.
"""

from __future__ import annotations

from typing import Any

from wse.compiler.lowering.phase.context import Context
from wse.compiler.options import BASELINE, PREFILL
from wse.compiler.passes.tiling.quantised_tiles import groups_name, widths_name
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.errors import WseBug
from wse.models.tensors.model_tensors import coding_of
from wse.number_formats import Coding, scales_name
from wse.program.isa.cycles.linear import gemv_cycles, matmul_cycles

UNPACKED_CODES = 128
"""Number of codes to unpack at a time by default, enough to amortise the start-up cost."""


def local_product(
    c: Context,
    x: SymAddress | SymBuffer,
    w: SymAddress | SymBuffer,
    out: SymAddress | SymBuffer,
    K: int,
    N: int,
    *,
    stride: int,
    out_stride: int,
    transposed: bool = False,
) -> None:
    """Add the steps in which every PE computes out[tokens, N] = x[tokens, K] @ w[K, N].

    The product is computed as one GEMM, whose vector instructions run over tokens, or as one GEMV
    per token, whose vector instructions run over outputs. With few tokens, a GEMV per token is
    faster. In the baseline schedule, prompt chunks of several tokens always use a GEMM. Quantised
    weights are unpacked once for all tokens.

    Args:
        c: Context of the phase being lowered.
        x: Activations.
        w: Weights. Quantised weights must be a whole tile (the block of a matrix that a PE stores).
        out: Address or buffer of the product.
        K, N: Rows and columns of the tile.
        stride: Row stride of ``w``, in elements.
        out_stride: Row stride of ``out``, in elements.
        transposed: Whether w is ``[N, K]``.

    Raises:
        WseBug: The weights are quantised but transposed or not contiguous.
    """
    if isinstance(w, SymBuffer) and w.view == "raw":
        if transposed or (stride, out_stride) != (N, N):
            raise WseBug(f"{w.name}: quantised weights must be a whole tile that is not transposed")
        _quantised_product(c, x, w, out, K, N)
        return
    k_stride, n_stride = (1, stride) if transposed else (stride, 1)
    product: dict[str, Any] = {"w": w, "K": K, "N": N, "k_stride": k_stride, "n_stride": n_stride, "x": x, "out": out}
    product |= {"M": c.tokens, "out_stride": out_stride}
    as_released = c.name == PREFILL and c.options.schedule == BASELINE
    sizes = (c.costs, c.tokens, K, N)
    if c.tokens == 1 or (not as_released and gemv_cycles(*sizes) <= matmul_cycles(*sizes, add=0)):
        c.builder.compute("gemv", **product)
    else:
        c.builder.compute("matmul", **product, add=0)


def expert_product(c: Context, kernel: str, w: SymAddress, K: int, N: int, **operands: Any) -> None:
    """Add the step that multiplies the vector of each (token, expert) pair by the expert's weights.

    Args:
        c: Context of the phase being lowered.
        kernel: Kernel for unquantised weights, ``expert_in`` (gate and up) or ``expert_out``
            (down). The names of the kernels for quantised weights start with this name.
        w: Address of the first expert's weights.
        K: Number of rows of an expert's weight matrix.
        N: Number of consecutive weights of an expert in each row.
        operands: Additional operands of the kernel, by name.
    """
    if w.buffer.view == "raw":
        coding, scale = _coding(c, w.buffer), c.tile(scales_name(w.buffer.name))
        operands |= _unpacking_operands(c, coding, w.buffer, K, N)
        columns, scales = w.buffer.elements // coding.code_bytes(K, 1), operands.get("B", N)
        offset, operands["G"] = w.offset // N * scales, scale.elements // (columns // N * scales)
        operands["scale"] = SymAddress(buffer=scale, offset=offset)
        if coding.is_factored:
            kernel = f"{kernel}_{coding.name}"
        else:
            operands |= {"groups": operands.get("groups", w), "coding": coding.number}
            kernel = f"{kernel}_quantised"
        if "B" in operands and "k_stride" in operands:
            operands["scale_stride"] = columns // N * scales
    c.builder.compute(kernel, w=w, K=K, N=N, **operands)


def _coding(c: Context, w: SymBuffer) -> Coding:
    """Return the quantisation format (codes and scales) of a tile of quantised weights."""
    coding = coding_of(c.spec, w.name.partition("+")[0], c.options.dtype)
    assert coding is not None
    return coding


def _unpacking_operands(c: Context, coding: Coding, w: SymBuffer, K: int, N: int) -> dict[str, Any]:
    """Return the kernel operands that a product needs to unpack quantised weights.

    Args:
        c: Context of the phase being lowered.
        coding: Quantisation format of the tile.
        w: Tile of codes (quantised weights).
        K, N: Rows and columns of the tile.

    Returns:
        Keyword arguments for `PhaseBuilder.compute`: operands by name.
    """
    rows, codes = scratch(c, K, N, UNPACKED_CODES)
    operands: dict[str, Any] = {"codes": codes, "rows": rows}
    if coding.group:
        operands["groups"] = c.tile(groups_name(w.name, c.parts))
    if coding.is_factored:
        operands["factors"] = c.temp(f"factors_{N}", N, "act", "buffers")
    if coding.scale_view == "f32":
        widths = c.tile(widths_name(w.name, c.parts))
        operands |= {"widths": widths, "B": widths.elements}
    return operands


def scratch(c: Context, K: int, N: int, max_codes: int) -> tuple[int, SymBuffer]:
    """Return how many rows of a quantised tile to unpack at a time, and the buffer for them.

    The tile is the block of a weight matrix that one PE stores.

    Args:
        c: Context of the phase being lowered.
        K, N: Rows and columns of the tile.
        max_codes: Maximum number of weights to unpack at a time; at least one row is unpacked.
    """
    rows = max(1, min(K, max_codes // N))
    return rows, c.temp(f"unpacked_codes_{rows * N}", rows * N, "act", "buffers")


def _quantised_product(
    c: Context, x: SymAddress | SymBuffer, w: SymBuffer, out: SymAddress | SymBuffer, K: int, N: int
) -> None:
    """Add the steps that multiply activations by quantised weights, which each PE unpacks.

    Args:
        c: Context of the phase being lowered.
        x: Activations.
        w: Tile of codes (quantised weights).
        out: Product.
        K, N: Rows and columns of the tile.
    """
    coding, scale = _coding(c, w), c.tile(scales_name(w.name))
    product: dict[str, Any] = {"x": x, "w": w, "scale": scale, "out": out, "M": c.tokens, "K": K, "N": N}
    product |= _unpacking_operands(c, coding, w, K, N)
    if coding.group:
        product["G"] = scale.elements // product.get("B", N)
    c.builder.compute(f"matmul_{coding.name}", **product)
