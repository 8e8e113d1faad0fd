"""Products whose operands travel on the interleaved rings of a square: MeshGEMM and dist-GEMM-T.

Source: He et al., WaferLLM, OSDI 2025 (arXiv 2502.04563), sections on MeshGEMM and on prefill.
"""

from __future__ import annotations

from dataclasses import dataclass

from wse.compiler.lowering.context import Context
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.patterns.ring_reduce import ring_keep, ring_reduce
from wse_mappings.patterns.ring_shift import ring_align, ring_shift


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingOperand:
    """An operand that moves between two buffers from round to round, with its elements per PE."""

    current: SymAddress
    next: SymAddress
    elements: int | SymNumber

    def after_rounds(self, rounds: int) -> MovingOperand:
        """Return the operand after a loop of ``rounds``: in the other buffer if they are odd."""
        return self if rounds % 2 == 0 else MovingOperand(current=self.next, next=self.current, elements=self.elements)


def moving_operand(buffer: SymBuffer, spare: SymBuffer, elements: int | SymNumber) -> MovingOperand:
    """Return an operand that starts in ``buffer`` and alternates between it and ``spare``."""
    return MovingOperand(
        current=SymAddress(buffer=buffer, odd_round_buffer=spare),
        next=SymAddress(buffer=spare, odd_round_buffer=buffer),
        elements=elements,
    )


def moving_copy(
    c: Context, name: str, source: SymAddress | SymBuffer, elements: int | SymNumber, most: int = 0
) -> MovingOperand:
    """Return a moving copy of a tile or of cache entries (``most`` elements); the source stays in place."""
    view = (source if isinstance(source, SymBuffer) else source.buffer).view
    size = elements if isinstance(elements, int) else most
    copy, spare = (c.temp(f"{name}_moving_{i}", size, view, "buffers") for i in range(2))
    c.builder.compute("copy_weights" if view == "wgt" else "copy", out=copy, x=source, n=elements)
    return moving_operand(copy, spare, elements)


def align(c: Context, *operands: tuple[MovingOperand, int]) -> list[MovingOperand]:
    """Skew operands, each along its axis, at the same time: floor(P / 2) rounds of ring steps."""
    P = c.cut.rows
    if P > 1:
        pattern = c.patterns.get(ring_align, P)
        with c.builder.loop(P // 2), c.builder.overlap():
            for operand, axis in operands:
                c.builder.line(pattern, axis, operand.current, operand.elements, target=operand.next)
    return [operand.after_rounds(P // 2) for operand, _ in operands]


def mesh_gemm(
    c: Context,
    kernel: str,
    a: MovingOperand,
    b: MovingOperand,
    out: SymAddress | SymBuffer,
    M: int,
    K: int | SymNumber,
    N: int,
    out_stride: int,
) -> None:
    """Lower out[M, N] = A @ B for aligned operands: P rounds that multiply while A and B shift.

    Afterwards both are where they were before, in the other buffer when P is odd.
    """
    P, builder = c.cut.rows, c.builder
    shift = c.patterns.get(ring_shift, P, P)
    with builder.loop(P), builder.overlap():
        builder.compute(
            kernel,
            x=a.current,
            w=b.current,
            out=out,
            M=M,
            K=K,
            N=N,
            k_stride=N,
            n_stride=1,
            out_stride=out_stride,
            add=SymNumber(per_round=1),
        )
        builder.line(shift, ROWS, a.current, a.elements, target=a.next)
        builder.line(shift, COLUMNS, b.current, b.elements, target=b.next)


def dist_gemm_t(
    c: Context,
    kernel: str,
    x: SymBuffer,
    b: MovingOperand,
    partial: SymBuffer,
    out: SymBuffer,
    M: int,
    K: int,
    N: int | SymNumber,
    *,
    transposed: bool,
) -> None:
    """Lower out[M, N] = X @ B in P rounds without alignment, where K of B is divided over columns and N over rows.

    In round t a row multiplies with the tiles of the row t places back on the ring and sums into that column, which
    keeps the sum. A tile of B is ``[K, N]``, or ``[N, K]`` when ``transposed``.
    """
    P, builder = c.cut.rows, c.builder
    shift = c.patterns.get(ring_shift, P, P)
    reduce_, keep = (
        c.patterns.get(ring_reduce, P, store_and_forward=c.options.store_and_forward),
        c.patterns.get(ring_keep, P),
    )
    k_stride, n_stride = (1, K) if transposed else (N, 1)
    elements = M * N if isinstance(N, int) else SymNumber(per_slot=M * N.per_slot)
    with builder.loop(P):
        with builder.overlap():
            builder.compute(
                kernel,
                x=x,
                w=b.current,
                out=partial,
                M=M,
                K=K,
                N=N,
                k_stride=k_stride,
                n_stride=n_stride,
                out_stride=N,
                add=0,
            )
            builder.line(shift, COLUMNS, b.current, b.elements, target=b.next)
        builder.line(reduce_, ROWS, partial, elements)
        builder.line(keep, ROWS, partial, elements, target=out)
