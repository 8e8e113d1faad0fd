"""Oracles of the list of (token, selected expert) pairs, and of the addition of their biases."""

from __future__ import annotations

import numpy as np

from wse_kernels.operands.experts import ColumnGroups, ExpertBiasShape, ExpertBiasTensors
from wse_kernels.oracle.experts.column import pairs_of_column, starts_of_parts


def expert_pairs(pe, ids, weights, pairs, M, A, P, experts, division: ColumnGroups):
    """List the (token, selected expert) pairs whose expert is stored in this column of PEs.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    Args:
        pe: PE whose SRAM is read and written.
        ids, weights: Addresses of the selected expert ids [M, A] and their routing weights [M, A].
        pairs: Address of the list [1 + 3 P]: the pair count, then (token, expert, weight) for each
            pair.
        M, A, P: Numbers of tokens and of experts per token; maximum number of pairs in the list.
        experts: Number of experts in the layer.
        division: Groups of columns that store different experts.
    """
    columns, groups, segments = division
    segment, col = divmod(pe.col, int(columns // segments))
    group = int(np.searchsorted(starts_of_parts(columns // segments, groups), col, side="right")) - 1
    segment_start, segment_end = starts_of_parts(experts, segments)[segment : segment + 2]
    first, end = segment_start + starts_of_parts(segment_end - segment_start, groups)[group : group + 2]
    chosen_ids, weight = pe.read("f32", ids, M * A), pe.read("f32", weights, M * A)
    in_column = [p for p in range(M * A) if first <= int(chosen_ids[p]) < end][:P]
    pe.write("f32", pairs, np.array([len(in_column)], np.float32))
    for i, p in enumerate(in_column):
        pe.write("f32", pairs + 1 + 3 * i, np.array([p // A, chosen_ids[p] - first, weight[p]], np.float32))


def expert_bias(
    pe, at: ExpertBiasTensors, shape: ExpertBiasShape, by_token, weighted, biases_per_pe, division: ColumnGroups
):
    """Add those biases of the selected experts that one PE stores to the outputs.

    This NumPy reference for one PE is used to test the compiled kernel of the same name.

    A pair is a token and one of its selected experts. For each pair in the list of the PE, the
    biases of the expert are added to a row of sums: the row of the token if ``by_token`` is 1, else
    the row of the pair. A row has N sums for each part of the outputs, such as gate and up.

    Args:
        pe: PE whose SRAM is read and written.
        at: Addresses of the sums, biases and pairs.
        shape: P pairs, M tokens, N outputs per part, the number of parts, and the number of experts
            in the column.
        by_token: 1 to add to the sums of tokens, 0 to add to the sums of pairs.
        weighted: 1 to multiply biases by the pair's routing weight, else 0.
        biases_per_pe: Number of biases of each part that one PE stores.
        division: Groups of columns that store different experts.
    """
    x, bias, pairs = at
    N, parts, stride = shape.N, shape.parts, shape.stride
    columns, groups, segments = division
    width = columns // segments
    starts = starts_of_parts(width, groups)
    col = pe.col % width
    place = col - starts[np.searchsorted(starts, col, side="right") - 1] if by_token else pe.row
    stored_bias = pe.read("wgt", bias, parts, biases_per_pe)
    for i, (token, expert, weight) in enumerate(pairs_of_column(pe, pairs, shape)):
        row, scale = x + (token if by_token else i) * stride, weight if weighted else np.float32(1.0)
        index = expert * N + np.arange(N) - place * biases_per_pe
        is_stored = (index >= 0) & (index < biases_per_pe)
        sums = pe.read("acc", row, parts, N)
        sums[:, is_stored] += stored_bias[:, index[is_stored]] * scale
        pe.write("acc", row, sums)
