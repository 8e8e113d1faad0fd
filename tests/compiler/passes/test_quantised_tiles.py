"""Tests of quantised weights in a Program: bytes, groups of inputs, and refused types."""

from dataclasses import replace

import numpy as np
import pytest
from compiled import compile_model
from hypothesis import given, settings
from hypothesis import strategies as st
from session import SOFTWARE, region_options, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM, unsupported_on_mesh
from wse.compiler.passes.tiling.quantised_tiles import coded_tiles
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.feasibility import fits
from wse.compiler.search.remedies import remedies
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import is_linear, stored_bytes, tensor_shapes
from wse.number_formats import CODINGS
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS, StepKind
from wse.program.tiles import Tile, TilePart
from wse.studies.results.placement import model_result
from wse_mappings.cuts.layer_parts import Parts
from wse_mappings.rounding import ceil_div

SPEC = tiny_spec(hidden=72, heads=6, kv_heads=2, head_size=12, ffn=100, vocab=67)
SCALE_BYTES = {"int4": 2, "mxfp4": 1}
"""Bytes per scale of codings with groups."""
OPTIONS = region_options(dtype="int8", activations="float16", context=30, prompt_tokens=(9,))


def compiled(dtype: str, rows: int, cols: int, spec: ModelSpec = SPEC) -> Program:
    """Return a Program with weights of a type; codes are multiplied by float16 activations."""
    activations = "float16" if dtype in CODINGS else None
    choice = Choice(prefill=THIN_GEMM, prefill_chunk=9, head_chunk=16)
    options = replace(OPTIONS, dtype=dtype, activations=activations)
    return compile_choice(spec, wafer(rows, cols, 1 << 22), SOFTWARE, options, choice)


def max_groups(tile: Tile) -> int:
    """Return the maximum number of groups of 32 inputs that a PE has inputs of."""
    outer = tile.parts[0].outer
    return max(len({int(i) // 32 for i in line if i >= 0}) for line in outer)


@pytest.mark.parametrize("coding", CODINGS)
def test_buffers_have_exactly_codes_and_scales(coding: str) -> None:
    rows, cols = 7, 5
    program = compiled(coding, rows, cols)
    by_name = {b.name: b for b in program.buffers}
    plain = {tile.name: tile for tile in compiled("float16", rows, cols).tiles}
    quantised = [tile for tile in program.tiles if tile.coding]
    assert len(quantised) == 4 * SPEC.layer_count
    for tile in quantised:
        K, N = plain[tile.name].outer, plain[tile.name].inner
        scales = next(t for t in program.tiles if t.name == f"{tile.name}.scales")
        assert (tile.outer, tile.inner, scales.inner) == (K, N, N)
        assert by_name[tile.name].bytes == (ceil_div(K, 2) if coding in SCALE_BYTES else K) * N
        assert by_name[scales.name].bytes == SCALE_BYTES.get(coding, 2) * N * scales.outer
        groups = max_groups(tile) if coding in SCALE_BYTES else 1
        assert scales.outer == groups


@pytest.mark.parametrize("dtype", ["float32", "float16", *CODINGS])
def test_model_bytes_are_those_of_all_tensors_as_stored(dtype: str) -> None:
    program = compiled(dtype, 3, 3)
    element_bytes = 4 if dtype == "float32" else 2
    total = 0
    for name, shape in tensor_shapes(SPEC).items():
        if dtype not in CODINGS or not is_linear(name):
            total += int(np.prod(shape)) * element_bytes
        else:
            outputs, inputs = shape
            codes = outputs * inputs if dtype not in SCALE_BYTES else outputs * ceil_div(inputs, 2)
            groups = ceil_div(inputs, 32) if dtype in SCALE_BYTES else 1
            total += codes + SCALE_BYTES.get(dtype, 2) * outputs * groups
    result = model_result(SPEC, program)
    assert (result.bytes, result.dtype) == (total, dtype)
    assert result.activations == ("float16" if dtype in CODINGS else dtype)
    assert stored_bytes(SPEC, dtype, element_bytes) == total


@given(
    lines=st.integers(1, 5),
    inputs=st.integers(1, 90),
    axis=st.sampled_from([ROWS, COLUMNS]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=20, deadline=None)
def test_rows_of_a_tile_use_the_scale_of_their_group(lines: int, inputs: int, axis: int, seed: int) -> None:
    """Blocks of the contraction may be contiguous or not, with padding anywhere."""
    random = np.random.default_rng(seed)
    index = random.integers(-1, 200, (lines, inputs)).astype(np.int32)
    inner = np.zeros((1, 1), np.int32)
    part = TilePart(tensor="layers.0.o", outer=index, outer_axis=axis, inner=inner, inner_axis=ROWS, transposed=True)
    whole = Tile(stage=0, name="layers.0.o", address=-1, view="wgt", outer=inputs, inner=1, parts=(part,))
    codes, scales, groups = coded_tiles(whole, SPEC, "int4", Parts(0, 1))
    assert (codes.view, scales.view, groups.view, groups.name) == ("raw", "wgt", "raw", "groups.o")
    touched, number = scales.parts[0].outer, groups.parts[0].inner
    assert touched is not None
    assert (scales.parts[0].outer_axis, groups.parts[0].inner_axis) == (axis, axis)
    assert number.min() >= 0
    found = np.take_along_axis(touched, number, axis=1)
    np.testing.assert_array_equal(found[index >= 0], index[index >= 0] // 32)
    if (index[:, 0] >= 0).all():
        assert scales.outer == max(len(set((line[line >= 0] // 32).tolist())) for line in index)


def kernels_of(program: Program) -> set[str]:
    return {
        KERNELS[code].name
        for phase in program.phases
        for kind, code in zip(phase.steps.kind, phase.steps.code, strict=True)
        if kind == StepKind.COMPUTE
    }


def test_prefill_on_a_square_does_not_move_quantised_weights() -> None:
    options = replace(OPTIONS, dtype="int4")
    assert unsupported_on_mesh(SPEC, options)
    assert not unsupported_on_mesh(SPEC, replace(options, dtype="float16", activations=None))
    program = compile_model(SPEC, wafer(6, 6), SOFTWARE, options, cost=lambda program: -len(program.decode.steps))
    assert program.prefill_name == THIN_GEMM
    assert "matmul_int4" in kernels_of(program)
    assert "matmul" not in kernels_of(program)  # the head is a gemv


@pytest.mark.parametrize("product", [MESH_GEMM, MESH_GEMM_OWN])
def test_products_that_move_weights_refuse_quantised_weights(product: str) -> None:
    with pytest.raises(BadInput, match=rf"^{product} does not support int8 weights, which tiny has: use"):
        compile_model(SPEC, wafer(6, 6), SOFTWARE, replace(OPTIONS, prefill=product))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dtype": "int7"}, UnknownName, "unknown dtype 'int7': did you mean 'int8'?"),
        ({"activations": "int8"}, UnknownName, "unknown type of activations 'int8'"),
        ({"activations": None}, UnknownName, "unknown type of activations 'None'"),
        ({"dtype": "float32"}, BadInput, "--activations float16: float32 weights are multiplied in their own type"),
    ],
)
def test_unknown_or_incompatible_types_are_refused(
    change: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        compile_model(SPEC, wafer(3, 3), SOFTWARE, replace(OPTIONS, **change))  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("sram_bytes", "expected"), [(160_000, "float16"), (85_000, "int4")])
def test_widest_type_that_fits_is_suggested(sram_bytes: int, expected: str) -> None:
    spec = tiny_spec(hidden=128, heads=8, kv_heads=4, head_size=16, ffn=160, layers=4)
    options = replace(OPTIONS, dtype="float32", activations=None)
    small = wafer(3, 3, sram_bytes)
    types = {"float32": None, "float16": None, "int8": "float32", "int4": "float32"}
    fitting = [t for t, act in types.items() if fits(spec, small, SOFTWARE, replace(options, dtype=t, activations=act))]
    assert fitting[0] == expected
    found = remedies(spec, small, small, SOFTWARE, options)
    assert [remedy for remedy in found if remedy.startswith("--dtype")] == [f"--dtype {expected}"]
    half = replace(options, dtype="float16", accumulate="float16")
    if expected != "float16":
        assert f"--dtype {expected} --accumulate float32" in remedies(spec, small, small, SOFTWARE, half)
