"""Tests of the rewrite early-shift: equal logits, and cache shifts that run in parallel with an all-reduce."""

from __future__ import annotations

import numpy as np
from tiny_model import tiny_spec
from tiny_run import tiny_session, worst_logit_error

from wse.compiler.options import THIN_GEMM
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import is_of_type

MESH, PROMPT = (9, 5), [5, 17, 40, 9, 33, 21, 8]


def test_logits_are_those_of_the_plain_decoder() -> None:
    assert worst_logit_error(tiny_spec(), MESH, chunk=4, schedule="early-shift") < 1e-5


def test_cache_shifts_run_in_parallel_with_the_all_reduce_before_them() -> None:
    steps = tiny_session(tiny_spec(), MESH, THIN_GEMM, PROMPT, 3, schedule="early-shift").program.decode.steps
    shifts = np.flatnonzero(is_of_type(steps, CacheShift))
    assert shifts.size
    for shift in shifts:
        group = np.flatnonzero(steps.overlap == steps.overlap[shift])
        assert is_of_type(steps, AlongLine)[group].tolist() == [True, False, False]
