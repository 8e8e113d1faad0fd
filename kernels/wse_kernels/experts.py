"""Products with the experts that tokens were routed to: a PE works through the list of pairs of its column.

A *pair* is a token and one of the experts chosen for it. The list, float32, is their count and then for each pair
(token, expert counted from the column's first, weight); a PE takes tiles by the indices that it finds there, never more
than ``P`` pairs and never beyond its tokens or experts, whatever the list says. ``w`` is ``[K, held, N]``.

PEs whose lists are alike are worked on side by side; ``columns`` tells those from lanes without a PE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse_kernels._jit import multiply_add_rows, narrow, prange, widen


def expert_pairs(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """f32[1 + 3 P] = the list of the pairs whose expert the PE's column holds, in the order of tokens and choices.

    The columns of each of some equal ``stretches`` are cut into ``groups`` of sizes that differ by at most one, the
    larger ones first; experts over the stretches alike, and those of a stretch over its groups. Operands: 3 f32 ids
    ``[M, A]``, 4 f32 weights ``[M, A]``, 5 f32 list, 6 M, 7 A, 8 P, 9 experts, 10 groups, 11 columns, 12 stretches.
    """
    ids, weights, pairs, M, A, P, experts, groups, columns = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    each = columns // a[12]
    narrowest, wider = each // groups, each % groups
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for lane in range(lanes):
            stretch, col = ((block % a[2]) * lanes + lane) // each, ((block % a[2]) * lanes + lane) % each
            here = experts // a[12] + (1 if stretch < experts % a[12] else 0)
            fewest, fuller = here // groups, here % groups
            group = col // (narrowest + 1)
            if group >= wider:
                group = wider + (col - wider * (narrowest + 1)) // narrowest
            first = stretch * (experts // a[12]) + min(stretch, experts % a[12])
            first += group * fewest + min(group, fuller)
            held = fewest + (1 if group < fuller else 0)
            count = 0
            for p in range(M * A):
                local = np.int64(f32[block, ids + p, lane]) - first
                if local >= 0 and local < held and count < P:
                    at = pairs + 1 + 3 * count
                    f32[block, at, lane] = np.float32(p // A)
                    f32[block, at + 1, lane] = np.float32(local)
                    f32[block, at + 2, lane] = f32[block, weights + p, lane]
                    count += 1
            f32[block, pairs, lane] = np.float32(count)


def expert_in(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[pair, N] = x[token, K] @ w[expert][K, N], times the pair's weight where that is asked for.

    Operands: 3 act x ``[M, K]``, 4 wgt, 5 f32 list, 6 acc, 7 P, 8 M, 9 K, 10 N, 11 experts held, 12 stride of w along K
    and 13 stride of acc along pairs in elements, 14 is 1 to weigh, 15 columns.
    """
    x, w, pairs, out, P, M, K, N, held, k_stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]
    out_stride, weighed, columns = a[13], a[14], a[15]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        used = min(lanes, columns - (block % a[2]) * lanes)
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + M * K - 1, 0]) + widen(acc[block, out + (P - 1) * out_stride + N - 1, 0])
        far += widen(wgt[block, w + (K - 1) * k_stride + held * N - 1, 0])
        for i in range(P):
            at = pairs + 1 + 3 * i
            alike = True
            for lane in range(1, used):
                same = f32[block, pairs, lane] == f32[block, pairs, 0] and f32[block, at, lane] == f32[block, at, 0]
                alike = alike and same and f32[block, at + 1, lane] == f32[block, at + 1, 0]
            row = out + i * out_stride
            if alike and i < f32[block, pairs, 0]:
                token = min(max(np.int64(f32[block, at, 0]), 0), M - 1)
                expert = min(max(np.int64(f32[block, at + 1, 0]), 0), held - 1)
                for e in range(row, row + N):
                    for lane in range(lanes):
                        acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
                for k in range(K):
                    multiply_add_rows(acc, act, wgt, block, row, x + token * K + k, w + k * k_stride + expert * N, N, 1)
            elif not alike:
                for lane in range(used):
                    if i < f32[block, pairs, lane]:
                        token = min(max(np.int64(f32[block, at, lane]), 0), M - 1)
                        expert = min(max(np.int64(f32[block, at + 1, lane]), 0), held - 1)
                        for e in range(row, row + N):
                            acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
                        for k in range(K):
                            value = widen(act[block, x + token * K + k, lane])
                            first = w + k * k_stride + expert * N
                            for n in range(N):
                                old = acc[block, row + n, lane]
                                product = value * widen(wgt[block, first + n, lane])
                                acc[block, row + n, lane] = narrow(widen(old) + product, old)
            if weighed == 1:
                for e in range(row, row + N):
                    for lane in range(used):
                        if i < f32[block, pairs, lane]:
                            old = acc[block, e, lane]
                            acc[block, e, lane] = narrow(widen(old) * f32[block, at + 2, lane], old)


def expert_out(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[token, N] = the sum over the token's pairs of x[pair, K] @ w[expert][K, N]; 0 for a token without any.

    Where that is asked for, x is first multiplied by the pairs' weights, in place. Operands: 3 act x ``[P, K]``, 4 wgt,
    5 f32 list, 6 acc, 7 P, 8 M, 9 K, 10 N, 11 experts held, 12 is 1 to weigh, 13 columns.
    """
    x, w, pairs, out, P, M, K, N, held = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]
    weighed, columns = a[12], a[13]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        used = min(lanes, columns - (block % a[2]) * lanes)
        # Read the far end of each operand once, so that a build with bounds checks notices what rows do not.
        far = widen(act[block, x + P * K - 1, 0])
        far += widen(wgt[block, w + K * held * N - 1, 0])
        for e in range(out, out + M * N):
            for lane in range(lanes):
                acc[block, e, lane] = narrow(np.float32(0.0), acc[block, e, lane])
        for i in range(P):
            at = pairs + 1 + 3 * i
            if weighed == 1:
                for e in range(x + i * K, x + i * K + K):
                    for lane in range(used):
                        if i < f32[block, pairs, lane]:
                            old = act[block, e, lane]
                            act[block, e, lane] = narrow(widen(old) * f32[block, at + 2, lane], old)
            alike = True
            for lane in range(1, used):
                same = f32[block, pairs, lane] == f32[block, pairs, 0] and f32[block, at, lane] == f32[block, at, 0]
                alike = alike and same and f32[block, at + 1, lane] == f32[block, at + 1, 0]
            if alike and i < f32[block, pairs, 0]:
                token = min(max(np.int64(f32[block, at, 0]), 0), M - 1)
                expert = min(max(np.int64(f32[block, at + 1, 0]), 0), held - 1)
                for k in range(K):
                    first = w + (k * held + expert) * N
                    multiply_add_rows(acc, act, wgt, block, out + token * N, x + i * K + k, first, N, 1)
            elif not alike:
                for lane in range(used):
                    if i < f32[block, pairs, lane]:
                        token = min(max(np.int64(f32[block, at, lane]), 0), M - 1)
                        expert = min(max(np.int64(f32[block, at + 1, lane]), 0), held - 1)
                        for k in range(K):
                            value = widen(act[block, x + i * K + k, lane])
                            first = w + (k * held + expert) * N
                            for n in range(N):
                                old = acc[block, out + token * N + n, lane]
                                product = value * widen(wgt[block, first + n, lane])
                                acc[block, out + token * N + n, lane] = narrow(widen(old) + product, old)


def expert_bias(act: Any, wgt: Any, acc: Any, f32: Any, raw: Any, ctl: Any, a: Any) -> None:
    """acc[pair, N] += bias[expert, N]; by token instead acc[token, N] += bias[expert, N] times the pair's weight.

    Operands: 3 acc, 4 wgt bias ``[held, N]``, 5 f32 list, 6 P, 7 M, 8 N, 9 experts held, 10 stride of acc along its
    rows in elements, 11 is 1 for rows by token, 12 is 1 to weigh.
    """
    x, bias, pairs, P, M, N, held, stride = a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]
    by_token, weighed = a[11], a[12]
    lanes = act.shape[2]
    for block in prange(a[0] * a[2], (a[0] + a[1]) * a[2]):
        for i in range(P):
            at = pairs + 1 + 3 * i
            for lane in range(lanes):
                if i < f32[block, pairs, lane]:
                    token = min(max(np.int64(f32[block, at, lane]), 0), M - 1)
                    expert = min(max(np.int64(f32[block, at + 1, lane]), 0), held - 1)
                    row = x + (token if by_token == 1 else i) * stride
                    weight = f32[block, at + 2, lane] if weighed == 1 else np.float32(1.0)
                    for n in range(N):
                        old = acc[block, row + n, lane]
                        added = widen(wgt[block, bias + expert * N + n, lane]) * weight
                        acc[block, row + n, lane] = narrow(widen(old) + added, old)
