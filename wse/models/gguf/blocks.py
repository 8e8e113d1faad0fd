"""Decode the blocks of ggml's quantised types to float32.

Layouts and formulas follow ggml (github.com/ggml-org/ggml): ``ggml-common.h`` for the block
structures and ``dequantize_row_*`` in ``ggml-quants.c``. Products are rounded in the same order, so
values are equal bit for bit.

    Q8_0          d q                  q int8
    Q4_0, Q5_0    d (q - 8), d (q - 16)        low halves of the bytes first, then high halves; the
                                               fifth bit of q is from qh
    Q4_1, Q5_1    d q + m
    Q4_K, Q5_K    (d s) q - (dmin m)   a scale s and an offset m of six bits for each 32 of 256
    Q6_K          (d s) (q - 32)       a scale s int8 for each 16 of 256
    MXFP4         2 ** (e - 127) q     q e2m1, see `wse.models.tensors.packed_tensors`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wse.models.tensors.packed_tensors import SIGNED_E2M1, decode_e8m0

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
Records = NDArray[Any]

BLOCKS_AT_ONCE: Final = 8192
"""Number of blocks decoded at a time, to limit the memory for intermediate results."""

LOW_HALVES: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
SIXTEEN_BYTES: Final = np.dtype((np.void, 16))
"""Element type for copies of 16 bytes. numpy copies one large element faster than small ones."""
NIBBLES: Final = np.array([0, 4], np.uint8)[:, None]
PAIRS_OF_BITS: Final = np.array([0, 2, 4, 6], np.uint8)[:, None]
BITS: Final = np.arange(8, dtype=np.uint8)[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockKind:
    """A quantised number format of the ggml library that stores weights in blocks.

    Attributes:
        weights: Number of weights per block.
        record: NumPy structure of one block.
        decode: Function that decodes an array of n block records to float32 [n, weights].
    """

    weights: int
    record: np.dtype[Any]
    decode: Callable[[Records], F32]

    @property
    def bytes(self) -> int:
        """Size of a block in bytes."""
        return self.record.itemsize

    def decode_blocks(self, blocks: U8) -> F32:
        """Decode the bytes of quantised blocks to float32 weights.

        Args:
            blocks: uint8 [..., number of blocks, bytes per block].

        Returns:
            float32 [..., number of blocks x weights per block].
        """
        flat = np.ascontiguousarray(blocks).reshape(-1, self.bytes).view(self.record)[:, 0]
        result = np.empty((len(flat), self.weights), np.float32)
        for begin in range(0, len(flat), BLOCKS_AT_ONCE):
            block_range = slice(begin, begin + BLOCKS_AT_ONCE)
            result[block_range] = self.decode(flat[block_range])
        return result.reshape(*blocks.shape[:-2], blocks.shape[-2] * self.weights)


def _d(records: Records, name: str = "d") -> F32:
    """Return a float16 field of n blocks, by default their scale ``d``, as float32 [n, 1]."""
    return records[name].astype(np.float32)[:, None]


def _bits(values: U8, shifts: U8, mask: int) -> U8:
    """Return ``(values >> shifts) & mask``, broadcast over all values and shifts."""
    return np.asarray((values >> shifts) & np.uint8(mask), np.uint8)


def _halves(qs: U8) -> U8:
    """Unpack 4-bit numbers: the low halves of all 16 bytes of a block, then the high halves.

    Args:
        qs: uint8 [n, 16], the bytes of n blocks.

    Returns:
        uint8 [n, 32].
    """
    eight = np.ascontiguousarray(qs).view(np.uint64)
    halves = np.empty((len(qs), 2), SIXTEEN_BYTES)
    halves[:, 0] = (eight & LOW_HALVES).view(SIXTEEN_BYTES)[:, 0]
    halves[:, 1] = (eight >> np.uint64(4) & LOW_HALVES).view(SIXTEEN_BYTES)[:, 0]
    return halves.view(np.uint8)


def _fifth_bits(qh: U8) -> U8:
    """Unpack the highest bit of 5-bit numbers: 16 for each set bit, else 0.

    Args:
        qh: uint8 [n, 4], one bit per number, lowest bit first.

    Returns:
        uint8 [n, 32].
    """
    return np.unpackbits(qh, axis=1, bitorder="little") << np.uint8(4)


def _decode_32(records: Records) -> F32:
    """Decode blocks of 32 numbers with a scale ``d`` per block to float32 [n, 32].

    The fields of a block specify the numbers: 4-bit ``qs``, with a fifth bit in ``qh`` if there is
    such a field, or int8 ``qs``. Unless blocks have an offset ``m``, numbers of 4 and 5 bits are
    stored with 8 or 16 added.
    """
    fields, numbers = records.dtype.names or (), records["qs"]
    if numbers.dtype == np.uint8:
        numbers = _halves(numbers)
        if "qh" in fields:
            numbers |= _fifth_bits(records["qh"])
        if "m" not in fields:
            numbers = numbers.view(np.int8) - np.int8(16 if "qh" in fields else 8)
    values: F32 = numbers.astype(np.float32)
    values *= _d(records)
    if "m" in fields:
        values += _d(records, "m")
    return values


def _six_bits(packed_numbers: U8) -> tuple[F32, F32]:
    """Unpack the scales and the offsets of Q4_K and Q5_K blocks, each float32 [n, 8, 1].

    Args:
        packed_numbers: uint8 [n, 12], which contains eight 6-bit scales and eight 6-bit offsets per
            block.
    """
    first, second, third = packed_numbers[:, :4], packed_numbers[:, 4:8], packed_numbers[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    offsets = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=1)
    return scales.astype(np.float32)[:, :, None], offsets.astype(np.float32)[:, :, None]


def _decode_k(records: Records) -> F32:
    """Decode Q4_K or Q5_K blocks to float32 [n, 256]: a scale and an offset for every 32 numbers.

    Of every 32 bytes of ``qs``, the low halves come first, then the high halves. Q5_K has a fifth
    bit for each number in ``qh``.
    """
    numbers = _bits(records["qs"].reshape(-1, 4, 1, 32), NIBBLES, 15).reshape(-1, 8, 32)
    if "qh" in (records.dtype.names or ()):
        numbers |= _bits(records["qh"][:, None], BITS, 1) << np.uint8(4)
    scales, offsets = _six_bits(records["scales"])
    d, dmin = _d(records)[:, None], _d(records, "dmin")[:, None]
    return ((d * scales) * numbers.astype(np.float32) - dmin * offsets).reshape(-1, 256)


def _q6_k(records: Records) -> F32:
    """Decode Q6_K blocks to float32 [n, 256]: 6-bit numbers minus 32, with a scale for every 16."""
    low = _bits(records["ql"].reshape(-1, 2, 1, 64), NIBBLES, 15).reshape(-1, 8, 32)
    high = _bits(records["qh"].reshape(-1, 2, 1, 32), PAIRS_OF_BITS, 3).reshape(-1, 8, 32)
    numbers = ((low | high << np.uint8(4)).astype(np.float32) - np.float32(32)).reshape(-1, 16, 16)
    scales = _d(records) * records["scales"].astype(np.float32)
    return (scales[:, :, None] * numbers).reshape(-1, 256)


def _mxfp4(records: Records) -> F32:
    """Decode MXFP4 blocks to float32 [n, 32]: e2m1 numbers times a power of two per block."""
    return decode_e8m0(records["e"])[:, None] * SIGNED_E2M1[_halves(records["qs"])]


_D, _M, _QS = ("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)
_QH, _K = ("qh", "u1", 4), [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12)]
_RECORDS: Final[dict[str, tuple[int, list[Any], Callable[[Records], F32]]]] = {
    "Q8_0": (32, [_D, ("qs", "i1", 32)], _decode_32),
    "Q4_0": (32, [_D, _QS], _decode_32),
    "Q4_1": (32, [_D, _M, _QS], _decode_32),
    "Q5_0": (32, [_D, _QH, _QS], _decode_32),
    "Q5_1": (32, [_D, _M, _QH, _QS], _decode_32),
    "Q4_K": (256, [*_K, ("qs", "u1", 128)], _decode_k),
    "Q5_K": (256, [*_K, ("qh", "u1", 32), ("qs", "u1", 128)], _decode_k),
    "Q6_K": (256, [("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), _D], _q6_k),
    "MXFP4": (32, [("e", "u1"), _QS], _mxfp4),
}
BLOCK_KINDS: Final[dict[str, BlockKind]] = {
    name: BlockKind(weights=weights, record=np.dtype(record), decode=decode)
    for name, (weights, record, decode) in _RECORDS.items()
}
