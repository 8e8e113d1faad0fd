"""Matrix products whose operands travel on the rings of a square region: MeshGEMM and dist-GEMM-T.

Each row and each column of the region is a ring. The ring visits every second PE on the way out and
the remaining PEs on the way back, so ring neighbours are at most two hops apart. Source: He et al.,
WaferLLM, OSDI 2025 (arXiv 2502.04563), sections on MeshGEMM and on prefill.
"""

from __future__ import annotations

from dataclasses import dataclass

from wse.compiler.lowering.phase.context import Context
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber
from wse.program.steps import COLUMNS, ROWS
from wse_mappings.patterns.rings import ring_align, ring_keep, ring_reduce, ring_shift


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingOperand:
    """A matrix operand of MeshGEMM whose tiles move to the next PE on a ring in every round.

    Each PE has two buffers for the operand: it computes with the tile in one buffer while the next
    tile arrives in the other.

    Attributes:
        current: Address of a PE's tile at the start of a round.
        next: Address at which the tile of the next round arrives.
        elements: Elements per PE.
    """

    current: SymAddress
    next: SymAddress
    elements: int | SymNumber

    def after_rounds(self, rounds: int) -> MovingOperand:
        """Return the operand after some rounds of MeshGEMM: an odd number swaps its two buffers."""
        return self if rounds % 2 == 0 else MovingOperand(current=self.next, next=self.current, elements=self.elements)


def moving_operand(buffer: SymBuffer, spare: SymBuffer, elements: int | SymNumber) -> MovingOperand:
    """Create a MeshGEMM operand whose tiles alternate between two buffers on each PE.

    Args:
        buffer: Buffer that contains a PE's first tile.
        spare: Second buffer, of the same size.
        elements: Elements of a tile.
    """
    return MovingOperand(
        current=SymAddress(buffer=buffer, odd_round_buffer=spare),
        next=SymAddress(buffer=spare, odd_round_buffer=buffer),
        elements=elements,
    )


def moving_copy(
    c: Context, name: str, source: SymAddress | SymBuffer, elements: int | SymNumber, max_elements: int = 0
) -> MovingOperand:
    """Add a step that copies weights or cache entries, and return the copy as a MeshGEMM operand.

    MeshGEMM moves its operands between PEs. Decode needs the original elements in place, so only
    the copy is moved.

    Args:
        c: Context of the phase being lowered.
        name: Name of the operand, used to name its buffers.
        source: Elements to copy.
        elements: Number of elements.
        max_elements: Maximum number of elements, if ``elements`` depends on KV-cache slots.
    """
    view = (source if isinstance(source, SymBuffer) else source.buffer).view
    size = elements if isinstance(elements, int) else max_elements
    copy, spare = (c.temp(f"{name}_moving_{i}", size, view, "buffers") for i in range(2))
    c.builder.compute("copy_weights" if view == "wgt" else "copy", out=copy, x=source, n=elements)
    return moving_operand(copy, spare, elements)


def align(c: Context, *operands: tuple[MovingOperand, int]) -> list[MovingOperand]:
    """Add the steps of MeshGEMM's initial skew, which rotate tiles along rings of PEs.

    Each row (or column) of tiles is rotated by a different number of places. Afterwards, matching
    tiles of both operands are on the same PE in every round of MeshGEMM. All operands move
    concurrently, each along its own axis. This takes floor(P / 2) ring steps on a region with P
    rows.

    Args:
        c: Context of the phase being lowered.
        operands: Pairs of an operand and the axis along which it moves.

    Returns:
        The operands after the ring steps.
    """
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
    """Add the steps for the matrix product out[M, N] = A @ B by MeshGEMM.

    MeshGEMM has P rounds on a region with P rows. In each round, PEs multiply their tiles and send
    them to the next PE. The tiles must be aligned (`align`). Afterwards, they are back on the PEs
    where they started; if P is odd, they are then in the second buffer of their operand.

    Args:
        c: Context of the phase being lowered.
        kernel: Kernel of the local product.
        a, b: Operands A and B.
        out: Address or buffer of the product.
        M, K, N: Sizes of the product on one PE.
        out_stride: Row stride of ``out``, in elements.
    """
    P, builder = c.cut.rows, c.builder
    shift_pattern = c.patterns.get(ring_shift, P, P)
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
        builder.line(shift_pattern, ROWS, a.current, a.elements, target=a.next)
        builder.line(shift_pattern, COLUMNS, b.current, b.elements, target=b.next)


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
    """Add the steps for the matrix product out[M, N] = X @ B by dist-GEMM-T.

    Dist-GEMM-T is a distributed product with a transposed matrix, which needs no initial skew. The
    K dimension of B is divided over the P columns of a square region, its N dimension over the
    rows. The tiles of B move along a ring of PEs. In each of P rounds, each row multiplies its part
    of X by the tiles of B that have arrived. The products are added up along the row, and one
    column keeps the sum.

    Args:
        c: Context of the phase being lowered.
        kernel: Kernel of the local product.
        x: Buffer of X, whose K dimension is partitioned across columns.
        b: Operand B, whose tiles move from PE to PE.
        partial: Buffer for the local products.
        out: Buffer of the product, whose N dimension is partitioned across columns.
        M, K, N: Sizes of the product on one PE.
        transposed: Whether a tile of B is ``[N, K]`` instead of ``[K, N]``.
    """
    P, builder = c.cut.rows, c.builder
    shift_pattern = c.patterns.get(ring_shift, P, P)
    reduce_pattern = c.patterns.get(ring_reduce, P, store_and_forward=c.options.store_and_forward)
    keep_pattern = c.patterns.get(ring_keep, P)
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
            builder.line(shift_pattern, COLUMNS, b.current, b.elements, target=b.next)
        builder.line(reduce_pattern, ROWS, partial, elements)
        builder.line(keep_pattern, ROWS, partial, elements, target=out)
