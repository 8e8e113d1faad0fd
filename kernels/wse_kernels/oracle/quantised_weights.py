"""Quantised weights as float32 values for oracles: codes, and their scales."""

from __future__ import annotations

import numpy as np

from wse_kernels.oracle.memory import F32, Bytes, Pe

INT8, FP8, INT4, MXFP4, FP8_BLOCKS = range(5)
"""Numbers of the formats of quantised weights."""


def e4m3(codes: Bytes) -> F32:
    """Decode e4m3 codes: 1 sign bit, 4 exponent bits with bias 7, 3 mantissa bits.

    Codes with exponent 0 are subnormal: they use exponent 1 without the leading 1.
    """
    exponent, mantissa = (codes >> 3 & 0xF).astype(np.int32), (codes & 7).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(8), np.float32(0))
    magnitude: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 10)
    return np.where(codes & 0x80, -magnitude, magnitude)


def e2m1(nibbles: Bytes) -> F32:
    """Decode e2m1 codes: 1 sign bit, 2 exponent bits with bias 1, 1 mantissa bit.

    Codes with exponent 0 are subnormal: they use exponent 1 without the leading 1.
    """
    exponent, mantissa = (nibbles >> 1 & 3).astype(np.int32), (nibbles & 1).astype(np.float32)
    leading = np.where(exponent > 0, np.float32(2), np.float32(0))
    magnitude: F32 = np.ldexp(leading + mantissa, np.maximum(exponent, 1) - 2)
    return np.where(nibbles & 8, -magnitude, magnitude)


def e8m0(exponents: Bytes) -> F32:
    """Decode e8m0 codes: code c is 2^(c - 127), except that 255 is NaN."""
    power = np.ldexp(np.float64(1), exponents.astype(np.int32) - 127)
    return np.where(exponents == 255, np.nan, power).astype(np.float32)


def scaled_codes(
    pe: Pe, coding: int, codes: tuple[int, int], scales: tuple[int, int], groups: int, sizes: tuple[int, int, int]
) -> F32:
    """Return int8, FP8 or int4 weights [K, N] multiplied by their scales, in the activation type.

    Args:
        pe: PE whose SRAM is read.
        coding: Number that identifies the weight format: INT8, FP8 or INT4.
        codes: Address of the quantised weights, and the distance between two rows.
        scales: Address of the scales, and the distance between two rows.
        groups: Address of one byte per row: the index of the group of rows with which it shares
            scales. Used for INT4 only.
        sizes: K, N and G: numbers of rows, outputs, and groups of rows.
    """
    K, N, G = sizes
    code_bytes = rows_of_codes(pe, codes, K, N, 2 if coding == INT4 else 1)
    factors = np.stack([pe.read("wgt", scales[0] + g * scales[1], N) for g in range(G)])
    row_groups = np.zeros(K, np.int64)
    if coding == INT8:
        values = code_bytes.view(np.int8).astype(np.float32)
    elif coding == FP8:
        values = e4m3(code_bytes)
    else:
        row_groups = pe.bytes(groups, K).astype(np.int64)
        nibbles = nibbles_of(code_bytes).astype(np.float32)
        values = np.where(nibbles > 7, nibbles - 16, nibbles)
    return pe.round_to("act", values * factors[row_groups])


def times_factors(pe: Pe, coding: int, factors: F32, w: int, groups: int, K: int, k_stride: int) -> F32:
    """Return MXFP4 or FP8 weights [K, N] multiplied by rounded scales, in the activation type.

    Args:
        pe: PE whose SRAM is read.
        coding: Number that identifies the weight format: MXFP4 or FP8_BLOCKS.
        factors: Scales [G, N] of the row groups.
        w, groups: Addresses of the quantised weights and of each row's group.
        K: Number of rows.
        k_stride: Distance between two rows of quantised weights.
    """
    code_bytes = rows_of_codes(pe, (w, k_stride), K, factors.shape[1], 2 if coding == MXFP4 else 1)
    values = e2m1(nibbles_of(code_bytes)) if coding == MXFP4 else e4m3(code_bytes)
    row_factors = pe.round_to("act", factors[pe.bytes(groups, K)])
    return pe.round_to("act", values * row_factors)


def rows_of_codes(pe: Pe, codes: tuple[int, int], K: int, N: int, codes_per_byte: int) -> Bytes:
    """Return, for each weight of a [K, N] matrix, the byte that contains its quantised value.

    Args:
        pe: PE whose SRAM is read.
        codes: Address of the weights, and the distance between two rows of bytes.
        K: Number of rows.
        N: Number of outputs.
        codes_per_byte: Number of consecutive rows whose weights share a byte, 1 or 2.
    """
    return np.stack([pe.bytes(codes[0] + k // codes_per_byte * codes[1], N) for k in range(K)])


def nibbles_of(code_bytes: Bytes) -> Bytes:
    """Return 4-bit weights: the low half of each byte in even rows, the high half in odd rows."""
    return np.where(np.arange(len(code_bytes))[:, None] % 2, code_bytes >> 4, code_bytes & 0xF)


def powers_of_two(pe: Pe, scale: int, stride: int, N: int, G: int) -> F32:
    """Return the e8m0 scales [G, N], which are powers of two, as float32.

    Args:
        pe: PE whose SRAM is read.
        scale: Address of the scales.
        stride: Distance between two rows in bytes.
        N, G: Numbers of outputs and groups of rows.
    """
    return np.stack([e8m0(pe.bytes(scale + g * stride, N)) for g in range(G)])


def block_factors(pe: Pe, scale: int, stride: int, widths: int, N: int, G: int, B: int) -> F32:
    """Return the float32 scale of each output, [G, N], given one scale per block of outputs.

    Args:
        pe: PE whose SRAM is read.
        scale, stride: Address of the scales, and distance between the scales of two groups.
        widths: Address of the number of outputs in each block, one byte each.
        N, G, B: Numbers of outputs, groups of rows, and blocks of outputs.
    """
    width = pe.bytes(widths, B).astype(np.int64)
    return np.stack([np.repeat(pe.read("f32", scale + g * stride, B), width)[:N] for g in range(G)])
