"""Layers and matrix products of the released WaferLLM benchmark programs in the fabric model.

These programs time one layer repeatedly with the PEs' cycle counters. The layer has a single full-
width attention head and a full KV cache. It has no embedding, no output head, and no transfer to
another region. Matrix products are timed in the same way. A layer is timed even if the whole model
would not fit in SRAM. Source: He et al., OSDI 2025, arXiv 2502.04563;
github.com/MeshInfra/WaferLLM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache

from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, LAYERS, MESH_GEMM_OWN, PREFILL, PRODUCT, REPORT, THIN_GEMM, Options
from wse.compiler.pipeline import compile_choice
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.program import Program
from wse.program.steps import Phase, StepKind
from wse.studies.validate.measured.models import plain_model
from wse.studies.validate.measured.platforms import software
from wse.studies.validate.predictors.prediction import Declined
from wse_mappings.patterns.k_tree import EQUAL_GROUPS

PROFILE = "academic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rectangle of PEs on which a kernel or a model was measured, and its wafer."""

    wafer: WaferSpec
    rows: int
    cols: int

    def check(self) -> None:
        """Check that a program can be compiled for this grid of PEs.

        Raises:
            Declined: The grid is larger than the mesh of the wafer.
        """
        if self.rows > self.wafer.mesh_rows or self.cols > self.wafer.mesh_cols:
            raise Declined(f"the grid is larger than the mesh of {self.wafer.mesh_rows}x{self.wafer.mesh_cols} PEs")

    def check_square(self) -> None:
        """Check that MeshGEMM can run on this grid of PEs.

        Raises:
            Declined: The grid is not a square.
        """
        if self.rows != self.cols:
            raise Declined("MeshGEMM runs on squares")


@cache
def decode_layer_cycles(grid: Grid, model: ModelSpec, cached: int, dtype: str, costs: SoftwareProfile) -> float:
    """Return how many cycles one model layer takes to decode a token.

    Args:
        grid: Rectangle of PEs, and the wafer that it is on.
        model: The model, whose attention has a single head.
        cached: Number of tokens in the KV cache, including the new token.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    # Cycles do not depend on free entries of the cache, so one compiled layer serves many cache sizes.
    context = 1 << (cached - 1).bit_length()
    one_layer = replace(model, layers=model.layers[:1])
    return _decode_fabric(grid, one_layer, context, dtype, costs).decode_cost(cached - 1).cycles


@lru_cache(maxsize=8)
def _decode_fabric(grid: Grid, model: ModelSpec, context: int, dtype: str, costs: SoftwareProfile) -> Fabric:
    """Compile the decoding of one token and return its timing model.

    Args:
        grid: Rectangle of PEs, and the wafer that it is on.
        model: The model, whose attention has a single head.
        context: KV-cache capacity in tokens.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    return Fabric(_compile(DECODE, grid, model, context, dtype), grid.wafer, costs)


@cache
def prefill_layer_cycles(grid: Grid, model: ModelSpec, tokens: int, dtype: str, costs: SoftwareProfile) -> float:
    """Return how many cycles one model layer takes for the prefill of a prompt.

    Args:
        grid: Rectangle of PEs, and the wafer that it is on.
        model: The model, whose attention has a single head.
        tokens: Number of tokens in the prompt.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    program = _compile(PREFILL, grid, replace(model, layers=model.layers[:1]), tokens, dtype)
    return Fabric(program, grid.wafer, costs).prefill_cost(0).cycles


def layers_fit(phase: str, grid: Grid, model: ModelSpec, tokens: int, dtype: str) -> bool:
    """Return whether all layers of a model fit in SRAM. Arguments are those of `_compile`."""
    return _compile(phase, grid, model, tokens, dtype).fits


@cache
def gemv_cycles(grid: Grid, K: int, N: int, groups: int, dtype: str, costs: SoftwareProfile) -> float:
    """Return how many cycles MeshGEMV (WaferLLM) takes to multiply a vector by a K x N matrix.

    Args:
        grid: Rectangle of PEs, and the wafer that it is on.
        K: Length of the vector.
        N: Number of matrix columns.
        groups: Number of groups of PEs in the all-reduce that adds the partial sums. 0 selects
            about the square root of the number of PEs on a line.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    model = plain_model(layers=1, hidden_size=K, ffn_size=N)
    program = _compile(DECODE, grid, model, 1, dtype, scope=PRODUCT, groups=groups or EQUAL_GROUPS)
    return Fabric(program, grid.wafer, costs).decode_cost(0).cycles


@cache
def gemm_cycles(grid: Grid, M: int, K: int, N: int, repeats: int, dtype: str, costs: SoftwareProfile) -> float:
    """Return how many cycles MeshGEMM (WaferLLM) takes to multiply M x K and K x N matrices.

    Args:
        grid: Rectangle of PEs, and the wafer that it is on.
        M: Number of rows of the first matrix.
        K: Number of columns of the first matrix and rows of the second matrix.
        N: Number of columns of the second matrix.
        repeats: Number of times that each PE multiplies its tiles before they move on. Usually 1;
            some benchmarks repeat the product to measure its time.
        dtype: Element type.
        costs: Software costs of a PE, such as cycles for starting a task.
    """
    program = _compile(PREFILL, grid, plain_model(layers=1, hidden_size=K, ffn_size=N), M, dtype, scope=PRODUCT)
    program = replace(program, phases=tuple(_repeat_work(phase, repeats) for phase in program.phases))
    return Fabric(program, grid.wafer, costs).prefill_cost(0).cycles


@cache
def _compile(
    phase: str,
    grid: Grid,
    model: ModelSpec,
    tokens: int,
    dtype: str,
    *,
    scope: str = LAYERS,
    groups: int = EQUAL_GROUPS,
) -> Program:
    """Compile the layers or matrix products of a benchmark program for one phase.

    Only the code size per PE in the software profile affects compilation.

    Args:
        phase: ``decode`` or ``prefill``.
        grid: Rectangle of PEs, and the wafer that it is on.
        model: A model with a single head. If a product is compiled, its hidden and feed-forward
            vectors have the sizes K and N of the product.
        tokens: Capacity of the KV cache, or the number of tokens in the prompt of a prefill.
        dtype: Element type.
        scope: What is compiled: the layers or a single product.
        groups: Number of groups of PEs in an all-reduce.
    """
    is_prefill = phase == PREFILL
    prompt_tokens = tokens if is_prefill else 0
    options = Options(
        mapping="region",
        wafers=1,
        dtype=dtype,
        accumulate=dtype,  # the released kernels add up in the type of their operands
        context=tokens,
        prompt_tokens=(prompt_tokens,),
        region=(grid.rows, grid.cols),
        capacity=REPORT,
        scope=scope,
        phases=(phase,),
        groups=groups,
        store_and_forward=True,
    )
    product = MESH_GEMM_OWN if is_prefill else THIN_GEMM
    choice = Choice(prefill=product, prefill_chunk=max(prompt_tokens, 1), head_chunk=1)
    return compile_choice(model, grid.wafer, software(PROFILE, grid.wafer.generation), options, choice)


def _repeat_work(phase: Phase, repeats: int) -> Phase:
    """Return a copy of a phase in which each PE's multiply-adds are repeated ``repeats`` times.

    With 0, only the transfers take time.
    """
    fixed = phase.steps.fixed.copy()
    products = (phase.steps.kind == StepKind.COMPUTE) & (phase.steps.code == CODES["matmul"])
    fixed[products, kernel_named("matmul").index["K"]] *= repeats
    return replace(phase, steps=replace(phase.steps, fixed=fixed))
