"""Write tests/data/gguf_blocks.json: random quantised blocks, decoded by the gguf package.

    pip install gguf
    python tools/make_block_goldens.py

The blocks themselves are not stored: tests/support/random_gguf.py generates the same ones from the
seed. The decoded values are stored as the bits of float32 numbers, in hexadecimal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from random_gguf import BLOCKS, stored  # noqa: E402

NUMBER = 2
SEED = 1


def main() -> None:
    """Write the decoded values of ``NUMBER`` random blocks of each type."""
    made = {}
    for kind, (weights, _, _) in BLOCKS.items():
        row = stored("blocks", [1, NUMBER * weights], kind, SEED)
        values = dequantize(row[None], GGMLQuantizationType[kind]).astype(np.float32)
        made[kind] = values.view(np.uint32)[0].astype("<u4").tobytes().hex()
    path = ROOT / "tests" / "data" / "gguf_blocks.json"
    path.write_text(json.dumps({"seed": SEED, "blocks": NUMBER, "values": made}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
