"""Programs of small models with some rewrites, and counts of the steps of their decoded tokens."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
from plain_router import MIXTURES, mixture_spec
from session import region_options
from tiny_model import tiny_spec
from tiny_run import tiny_session

from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.options import OPTIMIZED, THIN_GEMM
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec
from wse.program.isa.instructions import CODES, KERNELS
from wse.program.program import Program
from wse.program.steps import StepKind, Steps

MESH, PROMPT = (9, 5), [5, 17, 40, 9, 33, 21, 8]
SHARED = mixture_spec(MIXTURES["shared"])
MANY_EXPERTS = mixture_spec(Experts(count=258, active=2, ffn_size=4))
BIASED = replace(tiny_spec(), ffn_bias=True)
LAYER_NORMS = replace(tiny_spec(), norm="layer", gated=False, qkv_bias=True, ffn_bias=True, output_bias=True)
OPTIONS = region_options(context=30, prompt_tokens=(9,), schedule=OPTIMIZED)


@cache
def program_of(schedule: str, spec: ModelSpec | None = None, mesh: tuple[int, int] = MESH) -> Program:
    """Return the Program of a model with a schedule; the default is the tiny model."""
    return tiny_session(spec or tiny_spec(), mesh, THIN_GEMM, PROMPT, 3, schedule=schedule).program


def program_and_cost(schedule: str, spec: ModelSpec, mesh: tuple[int, int] = MESH) -> tuple[Program, PhaseCost]:
    """Return a program, and the cost of its decoded token."""
    run = tiny_session(spec, mesh, THIN_GEMM, PROMPT, 3, schedule=schedule)
    return run.program, run.fabric().decode_cost(len(PROMPT))


def activate_share_operands(steps: Steps) -> list[dict[str, int]]:
    """Return the operands by name of each step that runs the kernel ``activate_share``."""
    return [
        KERNELS[steps.code[s]].by_name(steps.operands(s, {0: 0}))
        for s in np.flatnonzero(runs_kernel(steps, "activate_share")).tolist()
    ]


def kernels_of(program: Program) -> Counter[str]:
    """Return the names of the kernels of a decoded token."""
    steps = program.decode.steps
    return Counter(KERNELS[code].name for code in steps.code[steps.kind == StepKind.COMPUTE])


def runs_kernel(steps: Steps, kernel: str) -> npt.NDArray[np.bool_]:
    """Return which steps run a kernel, as a mask."""
    return (steps.kind == StepKind.COMPUTE) & (steps.code == CODES[kernel])


def line_transfer_count(program: Program, axis: int) -> int:
    """Return the number of transfers along an axis in a decoded token."""
    steps = program.decode.steps
    return int(((steps.pattern >= 0) & (steps.axis == axis)).sum())
