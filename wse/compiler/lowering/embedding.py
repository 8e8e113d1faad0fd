"""Embedding: from token ids to the residual stream.

The table is partitioned across columns by vocabulary entry. Each column looks up the ids it stores,
and an all-reduce along rows adds up the results. Learned positions are looked up in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_users
from wse.compiler.lowering.sums import all_reduce, to_all_wafers
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber, fixed_number
from wse.models.op import Op
from wse.number_formats import round_to
from wse.program.isa.operands import PICO
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.host_streams import DraftIn, TokensIn
from wse_mappings.patterns.multicast import diagonal_stream, multicast

ID_BYTES = 4


def embedding(c: Context, op: Op) -> None:
    """Lower the embedding lookup for token ids to steps.

    In decode, the ids are already on the PEs. In other phases, steps are added that receive them
    from the host if necessary.

    In prefill by MeshGEMM, each row of PEs processes its own tokens, but the table is partitioned
    across all rows. All rows therefore look up the tokens of one row at a time. The results are
    then sent to that row by the PEs on the diagonal.
    """
    d, M, b = c.cut.hidden_per_pe, c.tokens, c.builder
    rounds = c.cut.rows if c.on_mesh else 1
    if c.decodes or c.verifies:
        ids = c.next_ids()
        if c.verifies and c.options.takes_drafts:
            receive_ids(c, ids, M, M * ID_BYTES, DraftIn)
    else:
        ids = c.prompt_ids(rounds * M)
        receive_ids(c, ids, rounds * M, c.chunk * ID_BYTES)
    vectors = c.temp("looked_up", M * d, "acc")
    if not c.on_mesh:
        _look_up(c, op, ids, vectors, fixed_number(0))
        b.compute("store", out=c.stream, x=vectors, n=M * d)
        return
    arrived_vectors = c.temp("arrived", M * d, "acc")
    stream = c.patterns.get(diagonal_stream, c.cut.rows)
    with b.loop(c.cut.rows):
        _look_up(c, op, replace(ids, per_round=M), vectors, SymNumber(per_round=1))
        b.line(stream, COLUMNS, vectors, M * d, target=arrived_vectors)
    b.compute("store", out=c.stream, x=arrived_vectors, n=M * d)


def _look_up(c: Context, op: Op, ids: SymAddress, vectors: SymBuffer, row: SymNumber) -> None:
    """Lower the lookup of token embeddings, and of learned position embeddings if there are any.

    Args:
        c: Context of the phase being lowered.
        op: Embedding op, whose weights are the tables.
        ids: Token ids.
        vectors: Buffer for the embeddings.
        row: Mesh row whose tokens are looked up; 0 if every row has all tokens.
    """
    d, M, b = c.cut.hidden_per_pe, c.tokens, c.builder
    b.compute("embedding_lookup", ids=ids, table=c.tile(op.weights[0]), out=vectors, M=M, K=d, V=c.cut.vocab_per_pe)
    if c.spec.embedding_scale != 1.0:
        b.compute(
            "scale",
            x=vectors,
            n=M * d,
            factor_pico=round(PICO * round_to(c.spec.embedding_scale, c.options.activation_type)),
        )
    for positions in op.weights[1:]:
        table = {"table": c.tile(positions), "K": d, "V": c.cut.positions.shape[1]}
        with over_users(c) as user:
            b.compute("add_positions", x=user.at(vectors, d), M=user.tokens, row=row, **table)
    all_reduce(c, ROWS, vectors, M * d, over_rows=M * c.spec.hidden_size)


def receive_ids(
    c: Context, ids: SymAddress, elements: int, payload_bytes: int, stream: type[TokensIn] = TokensIn
) -> None:
    """Receive token ids from the host at the north-west PE, and send them to all PEs of the region.

    Args:
        c: Context of the phase being lowered.
        ids: Address of the ids.
        elements: Number of ids, including padding.
        payload_bytes: Number of bytes received from the host.
        stream: Class of the transfer from the host.
    """
    b = c.builder
    b.transfer(stream, ids, target=ids, elements=elements, wafer=c.plans[b.stage].wafer, bytes=payload_bytes)
    if c.cut.span > 1:
        to_all_wafers(c, ids, elements)
    multicast_along_rows(c, ids, elements, only_first_row=True)
    b.line(c.patterns.get(multicast, c.cut.rows, c.cut.cols, 0), COLUMNS, ids, elements)


def multicast_along_rows(
    c: Context, at: SymAddress, elements: int, *, only_first_row: bool = False, col: int = 0
) -> None:
    """Add a step in which the PEs of one column send elements to all other PEs of their rows.

    On each wafer, one column sends.

    Args:
        c: Context of the phase being lowered.
        at: Address of the elements.
        elements: Elements per PE.
        only_first_row: Whether only the first row multicasts; otherwise every row does.
        col: Index of the sending column on each wafer.
    """
    pattern = c.patterns.get(multicast, c.cut.cols, c.cut.rows, col, c.cut.span)
    c.builder.line(pattern, ROWS, at, elements, only_row=0 if only_first_row else None)


OPS: Final = {"embedding": embedding}
"""Lowering function of each kind of op."""
