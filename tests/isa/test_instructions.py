"""Tests of the cycles of compute kernels on one PE: they follow the SIMD table and grow with the work."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session import SOFTWARE

from wse.hardware.load import load_wafer
from wse.program.isa.activation import ACTIVATIONS
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.isa.operands import FIRST_OPERAND
from wse.program.isa.pe_costs import PeCosts, pe_costs

WSE2, WSE3 = load_wafer("wse2"), load_wafer("wse3")
SIZES = ("M", "K", "N", "n", "F", "R", "T", "H", "Hk", "queries_per_kv", "Hq", "E", "V", "tokens")


def kernel_cycles(kernel: str, costs: PeCosts, *, over_heads: bool = False, **sizes: int) -> float:
    """Return the cycles of a call whose addresses are 0 and whose other operands are 1 unless given."""
    record = kernel_named(kernel)
    call = [0] * FIRST_OPERAND + [0 if view else sizes.get(name, 1) for name, view in record.views.items()]
    return record.cycles_of(call, costs, over_heads=over_heads)


def test_every_kernel_has_positive_cycles() -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float32", "float32")
    assert [kernel for kernel in CODES if kernel_cycles(kernel, costs, F=2) <= 0] == []


@given(
    kernel=st.sampled_from(tuple(CODES)), size=st.sampled_from(SIZES), small=st.integers(1, 40), more=st.integers(0, 40)
)
@settings(max_examples=40, deadline=None)
def test_more_work_never_costs_less(kernel: str, size: str, small: int, more: int) -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")
    base = dict.fromkeys(SIZES, 3) | {size: small}
    larger = base | {size: small + more}
    assert kernel_cycles(kernel, costs, **base) <= kernel_cycles(kernel, costs, **larger)
    assert kernel_cycles(kernel, costs, over_heads=True, **base) <= kernel_cycles(kernel, costs, **base)
    over_heads = [kernel_cycles(kernel, costs, over_heads=True, **sizes) for sizes in (base, larger)]
    assert over_heads[0] <= over_heads[1]


def test_vector_over_heads_processes_one_element_per_cycle() -> None:
    """Eight heads have one sum each: 8 reciprocals, then for each of 2 features 8 products that are not contiguous."""
    costs = pe_costs(WSE3, SOFTWARE, "float16", "float32")
    got = kernel_cycles("attention_finish", costs, over_heads=True, M=1, H=8, F=2)
    assert got == 8 * SOFTWARE.function_cycles + SOFTWARE.loop_cycles + 2 * (SOFTWARE.vector_issue_cycles + 8)


@pytest.mark.parametrize("n", [8, 64, 128])
def test_float32_gemv_needs_a_cycle_per_product_and_an_issue_per_row(n: int) -> None:
    """The cycles consist of n^2 multiply-adds (one per cycle), n vector issues, a mapped loop, and zeroing."""
    costs = pe_costs(WSE2, SOFTWARE, "float32", "float32")
    got = kernel_cycles("gemv", costs, K=n, N=n)
    zeroing = SOFTWARE.vector_issue_cycles + n / 2
    assert got == n * n + n * SOFTWARE.mapped_issue_cycles + SOFTWARE.loop_cycles + zeroing


@pytest.mark.parametrize(
    ("activations", "accumulators", "wse2", "wse3"),
    [("float16", "float16", 4, 8), ("float16", "float32", 2, 4), ("float32", "float32", 1, 1)],
)
def test_multiply_adds_follow_the_table_of_the_vendor(
    activations: str, accumulators: str, wse2: int, wse3: int
) -> None:
    for wafer, expected in ((WSE2, wse2), (WSE3, wse3)):
        costs = pe_costs(wafer, SOFTWARE, activations, accumulators)
        one, two = (kernel_cycles("gemv", costs, K=k, N=8000) for k in (1, 2))
        row = two - one
        assert 8000 / (row - SOFTWARE.mapped_issue_cycles) == expected


def test_vectors_are_tokens_in_matmul_and_outputs_in_gemv() -> None:
    """As in MeshGEMM and MeshGEMV, there is a vector of tokens per k and output, or a vector of outputs per k."""
    costs = pe_costs(WSE2, SOFTWARE, "float32", "float32")
    issue, loop = SOFTWARE.mapped_issue_cycles, SOFTWARE.loop_cycles
    assert kernel_cycles("matmul", costs, M=4, K=10, N=7, add=1) == 10 * (loop + 7 * (issue + 4))
    zeroing = SOFTWARE.vector_issue_cycles + math.ceil(7 / 2)
    one, three = (kernel_cycles("gemv", costs, M=tokens, K=10, N=7) for tokens in (1, 3))
    assert one == zeroing + loop + 10 * (issue + 7)
    assert three == 3 * one


def test_activation_costs_its_function_and_more_with_a_gate() -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")
    for function in range(len(ACTIVATIONS)):
        ungated, gated = (kernel_cycles("activate", costs, n=64, function=function, gated=g) for g in (0, 1))
        function_cycles = 0 if ACTIVATIONS[function] in ("relu", "relu2") else 64 * SOFTWARE.function_cycles
        assert gated > ungated > function_cycles


@pytest.mark.parametrize(
    ("kernel", "per_code", "per_output"),
    [
        # Per cycle: 1 shift, 4 logic operations or float16 adds, 2 float16 products with float32 sums.
        ("matmul_int8", 1 / 2 + 3 / 2 / 4 + 1 / 4 + 1 / 2, 1 / 1 + 1 / 1),  # convert scales to float32, multiply sums
        ("matmul_fp8", 3 / 2 + 1 / 4 + 1 / 2, 1 / 1 + 1 / 1),
        ("matmul_int4", 3 / 4 + 7 / 4 / 4 + 1 / 4 + 1 / 4 + 1 / 2, 0.0),  # multiply codes by float16 scales
        ("matmul_mxfp4", 7 / 4 + 1 / 4 + 1 / 4 + 1 / 2, 1 / 1 + 1 / 4 + 1 / 4),  # scales to powers of 2, per group
        ("matmul_fp8_blocks", 3 / 2 + 1 / 4 + 1 / 4 + 1 / 2, 1 / 4),  # scales to all outputs, per group
    ],
)
def test_code_costs_its_unpacking_and_its_product(kernel: str, per_code: float, per_output: float) -> None:
    """The cycles on WSE-2 for one token are compared by differences between sizes, which cancel issues and loops."""
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")

    def cycles(K: int, N: int) -> float:
        return kernel_cycles(kernel, costs, K=K, N=N, rows=K, G=1, B=1)

    def issues(K: int) -> float:
        return (
            K
            * SOFTWARE.mapped_issue_cycles
            * (2 if kernel in ("matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks") else 1)
        )

    wide_n, narrow_n = 8000, 4000
    zeroing = (wide_n - narrow_n) / 2
    got = cycles(16, wide_n) - cycles(16, narrow_n) - zeroing
    assert got == pytest.approx((wide_n - narrow_n) * (16 * per_code + per_output), abs=2)
    assert cycles(32, wide_n) - cycles(16, wide_n) == pytest.approx(16 * wide_n * per_code + issues(16), abs=2)


def test_unpacking_fewer_rows_at_once_needs_more_issues() -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")
    at_once, in_two_steps = (kernel_cycles("matmul_int8", costs, K=8, N=16, rows=r) for r in (8, 4))
    assert in_two_steps - at_once == 2 * SOFTWARE.loop_cycles + 5 * SOFTWARE.vector_issue_cycles


def test_pairs_of_tokens_and_experts_cost_a_gemv_and_a_list_access_each() -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")
    gemv = kernel_cycles("gemv", costs, K=10, N=7)
    one, three = (kernel_cycles("expert_in", costs, P=P, K=10, N=7, weighted=0) for P in (1, 3))
    list_cycles = 3 * (SOFTWARE.vector_issue_cycles + 1)
    assert one == gemv + list_cycles
    assert three == 3 * one


def test_router_choice_scans_blocks_of_many_experts_and_all_of_few() -> None:
    """256 experts are divided into 16 blocks. There are 16 block maxima and one more for each choice except the last.

    Each of the 8 choices scans the maxima and one block.
    """
    costs = pe_costs(WSE3, SOFTWARE, "float16", "float32")
    loop, last = SOFTWARE.loop_cycles, costs.vector(8, costs.f32)
    max_cycles, find_cycles = costs.vector(16, costs.max_f32), costs.vector(16, costs.f32)
    block_cycles = 24 * loop + 23 * max_cycles + 8 * (max_cycles + 2 * find_cycles)
    assert kernel_cycles("router_choose", costs, M=1, E=256, A=8, normalised=0) == block_cycles + last
    scan_cycles = 2 * loop + costs.vector(9, costs.max_f32) + costs.vector(9, costs.f32)
    assert kernel_cycles("router_choose", costs, M=1, E=9, A=1, normalised=0) == scan_cycles + costs.vector(
        1, costs.f32
    )


def test_pairs_of_all_experts_are_listed_as_vectors() -> None:
    costs = pe_costs(WSE3, SOFTWARE, "float16", "float32")
    one_by_one = kernel_cycles("expert_pairs", costs, M=1, A=8, P=8, groups=2)
    some_pairs = kernel_cycles("expert_pairs", costs, M=1, A=8, P=3, groups=2)
    iteration = SOFTWARE.loop_cycles + 3 * costs.vector(1, costs.f32)
    assert (one_by_one, some_pairs) == (16 * iteration, 11 * iteration)
    assert kernel_cycles("expert_pairs", costs, M=1, A=8, P=8) == costs.vector(1, costs.f32) + 3 * costs.strided_vector(
        8, costs.f32
    )


def test_sums_over_pairs_are_zeroed_per_token_and_weighted_per_pair() -> None:
    costs = pe_costs(WSE2, SOFTWARE, "float32", "float32")

    def out(**sizes: int) -> float:
        return kernel_cycles("expert_out", costs, **({"K": 6, "N": 8, "weighted": 0} | sizes))

    issue = SOFTWARE.vector_issue_cycles
    assert out(P=2, M=3) - out(P=2, M=2) == math.ceil(8 / WSE2.add_fp32_per_cycle)
    assert out(P=2, M=2, weighted=1) - out(P=2, M=2) == 2 * (issue + math.ceil(6 / WSE2.add_fp32_per_cycle))


@pytest.mark.parametrize(
    ("coding", "per_code"),
    [
        # Per cycle: 1 shift, 4 logic operations, float16 adds or products, 2 float16 products with float32 sums.
        (0, 1 / 2 + 3 / 2 / 4 + 1 / 4 + 1 / 4 + 1 / 2),
        (1, 3 / 2 + 1 / 4 + 1 / 4 + 1 / 2),
        (2, 3 / 4 + 7 / 4 / 4 + 1 / 4 + 1 / 4 + 1 / 2),
    ],
    ids=["int8", "fp8", "int4"],
)
@pytest.mark.parametrize("kernel", ["expert_in", "expert_out"])
def test_pairs_unpack_the_codes_of_their_expert_and_apply_scales(kernel: str, coding: int, per_code: float) -> None:
    """On WSE-2, a pair costs two issues per row and the cycles of its codes. Odd sizes cost as much as whole words."""
    costs = pe_costs(WSE2, SOFTWARE, "float16", "float32")

    def cycles(name: str, **sizes: int) -> float:
        return kernel_cycles(name, costs, coding=coding, weighted=0, **sizes)

    coded, wide_n = f"{kernel}_quantised", 8000
    pair = cycles(coded, P=3, K=32, N=wide_n, rows=32) - cycles(coded, P=3, K=16, N=wide_n, rows=16)
    assert pair == pytest.approx(3 * 16 * (wide_n * per_code + 2 * SOFTWARE.mapped_issue_cycles), abs=3)
    one, three = (cycles(coded, P=P, K=10, N=6, rows=5) - cycles(kernel, P=P, K=10, N=6) for P in (1, 3))
    assert three == pytest.approx(3 * one)
    assert one > 0
    odd, even = (cycles(coded, P=1, K=10, N=n, rows=5) - cycles(kernel, P=1, K=10, N=n) for n in (7, 8))
    assert odd == even
