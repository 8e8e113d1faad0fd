"""A decoded token of a model on a square of a wafer, from its config to the words on every link.

As a process: ``python wafer_token.py CONFIG SIDE LENGTH`` prints cycles and the busiest link's words.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wse.backends.fabric.model import Fabric
from wse.compiler.options import DECODE, PREFILL, REPORT, Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on
from wse.models.configs.config import read_config


def fabric(config: Path, side: int, context: int, *, prompt_tokens: int = 0) -> Fabric:
    """The fabric model of a Program that reads ``prompt_tokens`` (none: only decodes) in float16, fit or not."""
    wafer, software = mesh_on(load_wafer("wse2"), side, side), load_software("tuned", "wse2")
    options = Options(
        mapping="region",
        wafers=1,
        dtype="float16",
        accumulate="float32",
        context=context,
        prompt_tokens=(prompt_tokens,),
        phases=(PREFILL, DECODE) if prompt_tokens else (DECODE,),
        capacity=REPORT,
    )
    choice = Choice(prefill="mesh-gemm", prefill_chunk=max(1, prompt_tokens), head_chunk=1000)
    return Fabric(compile_choice(read_config(config), wafer, software, options, choice), wafer, software)


if __name__ == "__main__":
    length = int(sys.argv[3])
    cost = fabric(Path(sys.argv[1]), int(sys.argv[2]), length + 1).decode_cost(length)
    print(cost.cycles, cost.links.max())  # noqa: T201
