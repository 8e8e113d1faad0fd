"""Output head: the logits of the last hidden vector, and the id of the next token.

Decode computes one id per user. A verification pass computes an id after each of its tokens. The id
is either that of the largest logit, which PEs determine, or selected by the host.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from wse.compiler.lowering.embedding import ID_BYTES, receive_ids
from wse.compiler.lowering.local_product import local_product
from wse.compiler.lowering.phase.context import Context
from wse.compiler.lowering.phase.user_tokens import over_tokens
from wse.compiler.lowering.sums import all_reduce_of_wafers
from wse.compiler.options import PREFILL
from wse.compiler.symbolic import SymAddress, SymBuffer
from wse.models.op import Op
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.operands import PICO
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.host_streams import DrawnIn, LogitsOut, TokenOut
from wse_mappings.cuts.split import balanced_counts
from wse_mappings.patterns.k_tree import k_tree, root_of
from wse_mappings.patterns.multicast import diagonal_multicast, multicast
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival


def last_token(c: Context) -> None:
    """Make the following steps process only the last token of a prompt chunk.

    Logits are needed only for this token. In decode and verification passes, all tokens are kept.
    In prefill by MeshGEMM, tokens are partitioned across rows; the last token is then distributed
    across all PEs as in decode.
    """
    d, b = c.cut.hidden_per_pe, c.builder
    if c.on_mesh:
        shares = balanced_counts(c.chunk, c.cut.rows)
        row = int((shares > 0).sum()) - 1
        token = SymAddress(buffer=c.stream.buffer, offset=(int(shares[row]) - 1) * d)
        by_column, last_vector = c.temp("last_by_column", d, "act"), c.temp("last", d, "act")
        b.line(c.patterns.get(multicast, c.cut.rows, c.cut.cols, row), COLUMNS, token, d, target=by_column)
        b.line(c.patterns.get(diagonal_multicast, c.cut.rows), ROWS, by_column, d, target=last_vector)
        c.stream = SymAddress(buffer=last_vector)
    elif c.decodes or c.verifies:
        return  # an id follows each token
    else:
        c.stream = SymAddress(buffer=c.stream.buffer, offset=(c.tokens - 1) * d)
    c.on_mesh, c.tokens = False, 1


def head(c: Context, op: Op) -> None:
    """Add the steps of the output head, which computes the next token ids from hidden vectors.

    The hidden vectors are already normalised. The ids are stored on PEs and sent to the host.

    1. Each column of PEs computes logits for its own vocabulary entries, one chunk at a time.
    2. Send each chunk to the host if requested, and update each column's largest logit so far.
    3. Find the ids of the largest logits with an all-reduce along the row that has the logits. If
       the host does the sampling, receive the ids from the host instead.
    4. Multicast the ids along columns, and send them to the host.
    """
    d, V, M, b = c.cut.hidden_per_pe, c.cut.vocab_per_pe, c.tokens, c.builder
    normed, table = c.normed_hidden, c.tile(op.weights[0])
    size = min(c.choice.head_chunk, V)
    logits = c.temp("logits", M * size, "acc", "buffers")
    pairs = c.temp("best", M * 2, "f32", "buffers")
    reduce_pattern = c.patterns.get(k_tree, c.cut.rows, c.cut.cols, Arrival.ADD, broadcast=False)
    root = root_of(c.cut.rows)
    by_host = c.options.sampling == "host"
    for chunk in range(ceil_div(V, size)):  # 1
        first, n = chunk * size, min(size, V - chunk * size)
        weights = SymAddress(buffer=table, offset=first * d)
        local_product(c, normed, weights, logits, d, n, stride=d, out_stride=n, transposed=True)
        b.line(reduce_pattern, COLUMNS, logits, M * n)
        if op.vectors:
            bias = SymAddress(buffer=c.tile(op.vectors[0][0]), offset=first)
            b.compute("add_bias", only_row=root, x=logits, bias=bias, M=M, n=n)
        _scale_and_cap(c, logits, M * n, root)
        if by_host or c.options.logits_out == "all" or (c.options.logits_out == "prompt" and c.name == PREFILL):
            _send_logits(c, SymAddress(buffer=logits), M * n, first, n)  # 2
        if not by_host:
            with over_tokens(c) as token:
                b.compute(
                    "argmax_fold",
                    only_row=root,
                    logits=token.at(logits, n),
                    pair=token.at(pairs, 2),
                    n=n,
                    V=V,
                    first=first,
                    vocabulary=c.spec.vocab_size,
                    fold=int(chunk > 0),
                )
    if by_host and c.verifies:
        return  # the host selects from the logits, and the next pass receives its ids
    ids = c.next_ids()  # 3
    if by_host:
        receive_ids(c, ids, M, M * ID_BYTES, DrawnIn)
        return
    if c.cut.span > 1:
        all_reduce_of_wafers(c, SymAddress(buffer=pairs), M * 2, Arrival.ARGMAX, unpadded_elements=M * 2, only_row=root)
    else:
        argmax_pattern = c.patterns.get(k_tree, c.cut.cols, c.cut.rows, Arrival.ARGMAX, broadcast=True)
        b.line(argmax_pattern, ROWS, pairs, M * 2, only_row=root)
    multicast_pattern = c.patterns.get(multicast, c.cut.rows, c.cut.cols, root)
    winners = SymAddress(buffer=pairs, offset=1)
    if M > 1:
        winners = SymAddress(buffer=c.temp("found", M, "f32", "buffers"))
        b.compute("pair_indices", only_row=root, pairs=pairs, out=winners, n=M)
    b.line(multicast_pattern, COLUMNS, winners, M, target=ids)  # 4
    b.transfer(TokenOut, ids, elements=M, wafer=c.plans[b.stage].wafer, bytes=M * ID_BYTES)


def _scale_and_cap(c: Context, logits: SymBuffer, elements: int, row: int) -> None:
    """Scale and cap logits, if the model does so.

    Args:
        c: Context of the phase being lowered.
        logits: Complete logits.
        elements: Number of logits per PE.
        row: Row of PEs that has the logits.
    """
    scale_pico = round(PICO * c.spec.logit_scale)
    if c.spec.logit_cap is not None:
        cap_pico = round(PICO * c.spec.logit_cap)
        c.builder.compute("soft_cap", only_row=row, x=logits, n=elements, scale_pico=scale_pico, cap_pico=cap_pico)
    elif scale_pico != PICO:
        c.builder.compute("scale", only_row=row, x=logits, n=elements, factor_pico=scale_pico)


def _send_logits(c: Context, source: SymAddress, elements: int, first: int, n: int) -> None:
    """Add a step that sends logits to the host, eastwards along the row of PEs that has them.

    Args:
        c: Context of the phase being lowered.
        source: Address of the logits.
        elements: Number of logits per column, for all tokens.
        first: Index, within the column, of the first vocabulary entry to send.
        n: Number of vocabulary entries to send per column.
    """
    cols, wafers = c.cut.cols_of_wafer, range(c.cut.span)
    with ExitStack() as at_once:
        if c.cut.span > 1:
            at_once.enter_context(c.builder.loop(1))  # overlap groups must be inside a loop
            at_once.enter_context(c.builder.overlap())
        for wafer in wafers:
            entries = c.cut.vocab[wafer * cols : (wafer + 1) * cols, first : first + n]
            payload = c.tokens * int((entries >= 0).sum()) * ELEMENT_BYTES[c.options.accumulate]
            c.builder.transfer(
                LogitsOut,
                source,
                elements=elements,
                wafer=c.plans[c.builder.stage].wafer + wafer,
                bytes=payload,
                source_col=wafer * cols,
                cols=cols,
                first=first,
            )


OPS: Final = {"head": head}
"""Lowering function of each kind of op."""
