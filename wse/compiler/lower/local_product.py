"""A PE's own product with a tile of weights: the kernel for how the weights are held and for how many tokens."""

from __future__ import annotations

from typing import Any

from wse.compiler.lower.context import Context
from wse.compiler.passes.quantised_tiles import groups_name
from wse.compiler.state import SymAddress, SymBuffer
from wse.errors import WseBug
from wse.number_formats import CODINGS, scales_name

UNPACKED_CODES = 128
"""Codes that are unpacked at once, into scratch of no more than 512 bytes: what starting costs is spread over them."""


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
    """out[tokens, N] = x[tokens, K] @ w[K, N] on every PE; rows of w and out are as far apart as the strides say.

    ``transposed``: w is [N, K]. A chunk of a prompt is a GEMM, whose vectors are its tokens. Of a token, or of one of
    each user where they are no more than the outputs, a GEMV each has the longer vectors. Quantised weights are whole
    tiles, and what they make stands without gaps; they are unpacked once for all tokens. Raises WseBug where they
    are not.
    """
    if isinstance(w, SymBuffer) and w.view == "raw":
        if transposed or (stride, out_stride) != (N, N):
            message = f"{w.name}: only a whole tile of codes can be multiplied with"
            raise WseBug(message)
        _quantised_product(c, x, w, out, K, N)
        return
    k_stride, n_stride = (1, stride) if transposed else (stride, 1)
    product: dict[str, Any] = {"w": w, "K": K, "N": N, "k_stride": k_stride, "n_stride": n_stride}
    if c.tokens == 1 or (c.decoding and c.tokens <= N):
        with c.over_users() as user:
            c.builder.compute("gemv", **product, x=user.at(x, K), out=user.at(out, out_stride))
    else:
        c.builder.compute("matmul", **product, x=x, out=out, M=c.tokens, out_stride=out_stride, add=0)


def expert_product(c: Context, kernel: str, w: SymAddress, K: int, N: int, **operands: Any) -> None:
    """``expert_in`` or ``expert_out``, or its form for codes, with the experts that begin at ``w`` in a tile.

    An expert is K rows of N neighbours there.
    """
    if w.buffer.view == "raw":
        coding, (rows, codes), scale = CODINGS[c.options.dtype], _scratch(c, K, N), c.tile(scales_name(w.buffer.name))
        columns = w.buffer.elements // coding.code_bytes(K, 1)
        groups = c.tile(groups_name(w.buffer.name)) if coding.group else w
        operands |= {"groups": groups, "scale": SymAddress(buffer=scale, offset=w.offset), "codes": codes, "rows": rows}
        operands |= {"G": scale.elements // columns, "coding": list(CODINGS).index(coding.name)}
        kernel = f"{kernel}_quantised"
    c.builder.compute(kernel, w=w, K=K, N=N, **operands)


def _scratch(c: Context, K: int, N: int) -> tuple[int, SymBuffer]:
    """Rows of a tile ``[K, N]`` that are unpacked at once, and where to."""
    rows = max(1, min(K, UNPACKED_CODES // N))
    return rows, c.temp("unpacked_codes", rows * N, "act", "buffers")


def _quantised_product(
    c: Context, x: SymAddress | SymBuffer, w: SymBuffer, out: SymAddress | SymBuffer, K: int, N: int
) -> None:
    coding, (rows, codes), scale = CODINGS[c.options.dtype], _scratch(c, K, N), c.tile(scales_name(w.name))
    product: dict[str, Any] = {"x": x, "w": w, "scale": scale, "codes": codes, "out": out}
    product |= {"M": c.tokens, "K": K, "N": N, "rows": rows}
    if coding.group:
        product |= {"groups": c.tile(groups_name(w.name)), "G": scale.elements // N}
    c.builder.compute(f"matmul_{coding.name}", **product)
