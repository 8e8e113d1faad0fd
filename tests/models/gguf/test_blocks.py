from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from random_gguf import BLOCKS, stored

from wse.models.gguf.blocks import BLOCK_KINDS, BLOCKS_AT_ONCE

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "gguf_blocks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", BLOCKS)
def test_values_are_those_of_the_gguf_package_bit_for_bit(kind: str) -> None:
    block = BLOCK_KINDS[kind]
    raw = stored("blocks", [1, GOLDEN["blocks"] * block.weights], kind, GOLDEN["seed"])
    got = block.decode_blocks(raw.reshape(1, -1, block.bytes))
    wanted = np.frombuffer(bytes.fromhex(GOLDEN["values"][kind]), "<u4")
    np.testing.assert_array_equal(got.view(np.uint32)[0], wanted)


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_stretches_of_blocks_are_alike(kind: str) -> None:
    block = BLOCK_KINDS[kind]
    one = stored("one", [1, block.weights], kind, 1).reshape(1, block.bytes)
    many = block.decode_blocks(np.broadcast_to(one, (BLOCKS_AT_ONCE + 3, 1, block.bytes)))
    assert (many == block.decode_blocks(one)).all()


def test_mxfp4_is_a_number_of_four_bits_times_a_power_of_two() -> None:
    blocks = np.array([[127, *range(0x10, 0x20)], [129, *[0xF7] * 16], [0, *[2] * 16]], np.uint8)
    got = BLOCK_KINDS["MXFP4"].decode_blocks(blocks[:, None])
    np.testing.assert_array_equal(got[0, :16], [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    np.testing.assert_array_equal(got[0, 16:], np.full(16, 0.5))
    np.testing.assert_array_equal(got[1], [24.0] * 16 + [-24.0] * 16)
    np.testing.assert_array_equal(got[2, :16], np.full(16, 2.0**-127))
