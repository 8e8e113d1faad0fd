"""Kernels made of vector instructions touch nothing beyond the ends of arrays.

Interpreted kernels are plain Python and index arrays safely. Compiled loads and stores are not
checked by anything else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from guarded_pages import between_pages

from tests.kernels import helpers, test_compute, test_transfers
from tests.kernels.helpers import JIT
from tests.kernels.shapes import SIZES

CODED = ["matmul_int8", "matmul_fp8", "matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks"]
PRODUCTS = ["matmul", "matmul_act", "gemv", *CODED]
EXPERTS = ["expert_in", "expert_out_quantised", "expert_in_mxfp4", "expert_out_fp8_blocks"]
OTHERS = ["attention_scores", "attention_values", "argmax_fold"]
COLUMNS = [(16, 0), (19, 0), (31, 1), (5, 2)]
"""Columns, and a seed: spare lanes are as many as it is modulo 3."""


def run_at_page_ends() -> None:
    """Run kernels and oracles on memory that ends, or begins, next to an inaccessible page."""
    plain = helpers.to_lanes
    helpers.GUARD_BYTES = 0
    for at_end in (True, False):

        def placed(*arguments: object, at_end: bool = at_end) -> helpers.Array:
            return between_pages(plain(*arguments), at_end=at_end)

        helpers.to_lanes = test_transfers.to_lanes = placed
        for cols, seed in COLUMNS:
            for kernel in (*PRODUCTS, *EXPERTS, *OTHERS):
                for shift, tokens in ((0, 1), (0, 3), (3, 1), (3, 3), (6, 3)):  # other orders of buffers
                    size = {name: {"M": tokens, "K": 5, "N": 7}.get(name, 2) for name in SIZES[kernel]}
                    types = ("float32", "float32")
                    test_compute.check(kernel, types, "serial", size, 1, cols, (0, 1), seed + shift)
            for by_column in (0, 1):
                options = {"apart": 1, "by_column": by_column}
                test_transfers.check_lines("along_columns", "serial", "float16", 5, cols, 18, options, seed)
            test_transfers.check_lines("along_rows", "serial", "float16", 5, cols, 18, options, seed)
            for axis in ("rows", "columns"):
                test_transfers.check_exchange("serial", "float16", axis, 3, cols, 5, seed)
            in_place = test_transfers.test_messages_along_columns_in_place.hypothesis.inner_test
            in_place("serial", "float16", 5, cols, 18, seed)
        test_transfers.test_sums_in_place_are_their_messages("serial", "float16", 19, 21)
        test_transfers.test_sums_along_rows_that_are_turned("serial", "float16", test_transfers.ADD)


def ended(code: str) -> int:
    """Return the exit status of a process that runs ``code``."""
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONFAULTHANDLER": "1"}
    return subprocess.run([sys.executable, "-c", code], env=os.environ | paths, check=False).returncode


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="interpreted kernels index arrays")
def test_kernels_in_vectors_stay_within_their_arrays() -> None:
    assert ended("from tests.kernels.test_page_ends import run_at_page_ends; run_at_page_ends()") == 0


@pytest.mark.parametrize("index", [-1, 8])
def test_a_process_that_touches_what_is_beside_such_an_array_ends(index: int) -> None:
    code = f"""
import ctypes, numpy
from guarded_pages import between_pages
array = between_pages(numpy.zeros(8, numpy.uint8), at_end={index > 0})
ctypes.string_at(array.ctypes.data + 7 * {index > 0}, 1)
print(ctypes.string_at(array.ctypes.data + {index}, 1))
"""
    assert ended(code) == -signal.SIGSEGV
