"""Codes and scales: the rule said slowly, and what follows from it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from compiled import compile_model
from dequantised import GROUP, dequantised
from hypothesis import given, settings
from hypothesis import strategies as st
from session import SOFTWARE, region_options, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.weight_storage.quantise import quantise
from wse.backends.execute.weight_storage.weights import store_weights
from wse.errors import BadModel
from wse.number_formats import CODINGS

F32 = npt.NDArray[np.float32]
TYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def numbers(codes: Any, coding: str) -> F32:
    """Codes as the numbers that they stand for."""
    if coding in ("fp8", "mxfp4"):
        kind = ml_dtypes.float8_e4m3fn if coding == "fp8" else ml_dtypes.float4_e2m1fn
        return np.asarray(codes.view(kind), np.float32)
    return np.asarray(codes.view(np.int8) if coding == "int8" else np.where(codes > 7, codes - 16.0, codes), np.float32)


def factors(scales: Any, coding: str) -> F32:
    """Scales as the numbers that they stand for."""
    return np.asarray(scales.view(ml_dtypes.float8_e8m0fnu) if coding == "mxfp4" else scales, np.float32)


def drawn(outputs: int, inputs: int, seed: int) -> F32:
    """Weights of very different rows, one of them zero."""
    random = np.random.default_rng(seed)
    sizes = 10.0 ** random.uniform(-3, 2, (outputs, 1)) * (np.arange(outputs)[:, None] != 1)
    return (random.standard_normal((outputs, inputs)) * sizes).astype(np.float32)


@pytest.mark.parametrize("scale_type", TYPES)
@pytest.mark.parametrize("coding", CODINGS)
@given(outputs=st.integers(1, 5), inputs=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_codes_times_scales_are_the_rule(coding: str, scale_type: str, outputs: int, inputs: int, seed: int) -> None:
    weights = drawn(outputs, inputs, seed)
    codes, scales = quantise("w", weights, CODINGS[coding], TYPES[scale_type])
    assert (codes.dtype, scales.dtype) == (np.uint8, np.uint8 if coding == "mxfp4" else TYPES[scale_type])
    width = GROUP[coding] or inputs
    assert scales.shape == (outputs, -(-inputs // width))
    got = numbers(codes, coding) * np.repeat(factors(scales, coding), width, axis=1)[:, :inputs]
    np.testing.assert_array_equal(got, dequantised(weights, coding, TYPES[scale_type]))


@pytest.mark.parametrize("coding", CODINGS)
@given(inputs=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_weight_is_at_most_half_a_code_away_and_codes_are_symmetric(coding: str, inputs: int, seed: int) -> None:
    weights = drawn(3, inputs, seed)
    codes, scales = quantise("w", weights, CODINGS[coding], TYPES["float32"])
    scale = np.repeat(factors(scales, coding), GROUP[coding] or inputs, axis=1)[:, :inputs]
    got = numbers(codes, coding)
    largest = CODINGS[coding].largest_code
    assert np.abs(got).max() <= largest
    unit = scale
    if coding == "fp8":  # half a unit of the last of 3 bits below the number, or of the smallest
        unit = np.maximum(np.abs(weights) * 2.0**-3, scale * 2.0**-9)
    elif coding == "mxfp4":  # of the last of 1 bit; less than 8 times the scale is cut to 6 times that
        unit = np.maximum(np.maximum(np.abs(weights) * 2.0**-1, scale * 2.0**-1), 2 * (np.abs(weights) - 6 * scale))
    assert (np.abs(got * scale - weights) <= 0.5 * unit * (1 + 1e-5) + 1e-30).all()
    mirrored, _ = quantise("w", -weights, CODINGS[coding], TYPES["float32"])
    np.testing.assert_array_equal(numbers(mirrored, coding), -got)


def test_ties_go_to_the_even_code() -> None:
    weights = np.array([[7.0, 0.5, 1.5, 2.5, -0.5, -1.5]], np.float32)
    codes, scales = quantise("w", weights, CODINGS["int4"], TYPES["float32"])
    assert scales.tolist() == [[1.0]]
    assert numbers(codes, "int4").tolist() == [[7, 0, 2, 2, 0, -2]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("coding", CODINGS)
def test_what_shares_a_scale_with_no_number_is_none(coding: str, bad: float) -> None:
    weights = drawn(3, 40, 0)
    weights[2, 4] = bad
    codes, scales = quantise("w", weights, CODINGS[coding], TYPES["float32"])
    scales = factors(scales, coding)
    assert np.isfinite(scales[:2]).all()
    assert np.isfinite(scales[2]).tolist() == ([False, True] if GROUP[coding] else [False])
    shared = slice(GROUP[coding])
    assert not codes[2, shared].any()


@pytest.mark.parametrize("coding", CODINGS)
def test_weights_that_are_no_numbers_are_refused_by_name_and_count(coding: str) -> None:
    spec = tiny_spec()
    made = tensors(spec)
    made["layers.1.down"][[0, 3], [1, 2]] = np.nan
    options = region_options(dtype=coding, activations="float32", context=4, prompt_tokens=(1,))
    program = compile_model(spec, wafer(3, 3), SOFTWARE, options)
    with pytest.raises(BadModel, match=r"^layers\.1\.down: 2 of 2,080 values are not finite numbers; fetch"):
        Engine(program, spec, made.__getitem__)
    arenas = {
        i: Arena(s.rect.rows, s.rect.cols, s.sram_base_byte, s.sram_top_byte) for i, s in enumerate(program.stages)
    }
    store_weights(program, spec, made.__getitem__, arenas, allow_nonfinite=True)


def test_weights_too_large_for_the_type_of_scales_are_refused() -> None:
    weights = np.array([[1e6, 1e7]], np.float32)
    with pytest.raises(
        BadModel, match=r"^w: contains 1e\+07, too large for a scale of float16; use --activations float32$"
    ):
        quantise("w", weights, CODINGS["int8"], TYPES["float16"])
