"""The comparison with the oracle can fail: a kernel with one wrong index is detected."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.kernels.helpers import JIT, differing, make_case, run_kernel, run_oracle
from tests.kernels.shapes import SIZES, allowed_error, shape_of
from wse_kernels import (
    _jit,
    attention,
    elementwise,
    experts,
    linear,
    norm,
    router,
    vocabulary,
)
from wse_kernels._blocks import over_blocks

pytestmark = pytest.mark.skipif(JIT, reason="interpreted kernels show it in seconds: NUMBA_DISABLE_JIT=1")

SABOTAGE = [
    (norm, "sum_squares", "for k in range(K):", "for k in range(K - 1):"),
    (linear, "matmul", "N, K, k_stride, n_stride", "N, K, n_stride, k_stride"),
    (linear, "matmul_act", "N, K, k_stride, n_stride, out_stride", "N, K, k_stride, n_stride, N"),
    (attention, "attention_max_by_column", "ctl[block_col + lane, SLOTS + t]", "ctl[block_row, SLOTS + t]"),
    (attention, "attention_max", "position <= last", "position < last"),
    (attention, "attention_exp", "last - window + 1", "last - window"),
    (attention, "attention_max_by_column", "last // chunk * chunk", "last // chunk"),
    (attention, "attention_scores", "np.int64(ctl[block_row, OLDEST])", "np.int64(0)"),
    (elementwise, "residual_add", "added = narrow(widen(acc[block, addend + e, lane]), old)", "added = old"),
    (
        linear,
        "matmul_int8",
        "scale_rows(acc, wgt, block, out + m * N, scale, N)",
        "scale_rows(acc, wgt, block, out, scale, N)",
    ),
    (linear, "matmul_int4", "w, groups, w, scale, M", "w, groups + 1, w, scale, M"),
    (vocabulary, "argmax_fold", "logit > largest[lane]", "logit >= largest[lane]"),
    (router, "router_choose", "fresh and (value > best or", "fresh and (value >= best or"),
    (router, "router_limit", "first, second = value, first", "first = value"),
    (experts, "expert_pairs", "min(group, fuller_groups)", "fuller_groups"),
    (experts, "expert_in", "_index(f32, block, at + 1, lane, local_experts)", "local_experts - 1"),
    (experts, "expert_out", "_index(f32, block, at, lane, M)", "_index(f32, block, at, 0, M)"),
    (experts, "expert_in_quantised", "scale + expert * B", "scale"),
    (experts, "expert_out_quantised", "local_experts * B, 0, K", "B, 0, K"),
    (experts, "expert_bias", "(token if by_token == 1 else i)", "token"),
]


def load(module: ModuleType, wrong: str, right: str, folder: Path) -> ModuleType:
    """Load a copy of a kernel file in which every ``right`` is replaced by ``wrong``."""
    text = Path(module.__file__ or "").read_text()
    assert right in text
    path = folder / f"sabotaged_{module.__name__.rpartition('.')[2]}.py"
    path.write_text(text.replace(right, wrong))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def complaints(kernel: str, function: Callable[..., None]) -> list[str]:
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        shape = shape_of(kernel, dict.fromkeys(SIZES[kernel], 3), 2, 3, rng)
        case = make_case(kernel, shape, 2, 3, (0, 2), ("float16", "float32"), rng)
        want = run_oracle(case)
        found += differing(case, run_kernel(case, function), want, allowed_error(case, want))
    return found


@pytest.mark.parametrize(("module", "kernel", "right", "wrong"), SABOTAGE)
def test_a_sabotaged_kernel_is_caught(
    module: ModuleType,
    kernel: str,
    right: str,
    wrong: str,
    tmp_path: Path,
) -> None:
    copy = load(module, wrong, right, tmp_path)
    assert complaints(kernel, _jit.kernel(over_blocks(getattr(copy, kernel))))
    assert complaints(kernel, _jit.kernel(over_blocks(getattr(module, kernel)))) == []
