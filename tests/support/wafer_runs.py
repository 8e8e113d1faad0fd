"""Helpers that execute a tiny random model on several wafers, with logits errors and costs of the fabric model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from plain_decoder import plain_logits
from session import SOFTWARE, check_traffic, region_options, wafer, worst_error
from tiny_model import tensors

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice
from wse.compiler.options import THIN_GEMM
from wse.compiler.pipeline import compile_choice
from wse.hardware.spec import WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program

OPTIONS = region_options(mapping="tensor", wafers=2, context=20, prompt_tokens=(7,), logits_out="all")
CHOICE = Choice(prefill=THIN_GEMM, prefill_chunk=4, head_chunk=5)


@dataclass(kw_only=True)
class WaferRun:
    """Result of a run on several wafers.

    Attributes:
        engine: The engine after the run.
        program: The compiled model.
        machine: The wafer.
        costs: Cost of each pass in the fabric model.
        worst: Largest error of the logits, relative to the largest logit of the plain decoder.
    """

    engine: Engine
    program: Program
    machine: WaferSpec
    costs: list[PhaseCost]
    worst: float

    def check(self) -> None:
        """Check the error of the logits, and the words on links and bytes between wafers against the fabric model."""
        assert self.worst < 1e-5
        check_traffic(self.engine, self.costs)


def wafer_run(
    spec: ModelSpec,
    mesh: tuple[int, int],
    wafers: int,
    prompts: Sequence[Sequence[int]],
    steps: int = 3,
    source: Callable[[str], npt.NDArray[np.generic]] | None = None,
    machine: Mapping[str, float] | None = None,
    choice: Mapping[str, Any] | None = None,
    **option_values: Any,
) -> WaferRun:
    """Run the prompts and decode ``steps`` tokens of each, and compare the logits with the plain decoder.

    Args:
        spec: The model.
        mesh: Rows and columns of each wafer.
        wafers: Number of wafers.
        prompts: Token ids of each user.
        steps: Number of decode passes.
        source: Function from names to the tensors of the plain decoder; None for those of the model.
        machine: Fields of the wafer to replace.
        choice: Fields of the compiler's choice to replace.
        option_values: Options to replace.
    """
    lengths = [len(prompt) for prompt in prompts]
    options = replace(OPTIONS, wafers=wafers, prompt_tokens=tuple(lengths), **option_values)
    machine_spec = replace(wafer(*mesh, 1 << 20), **(machine or {}))
    program = compile_choice(spec, machine_spec, SOFTWARE, options, replace(CHOICE, **(choice or {})))
    all_tensors = tensors(spec)
    draws = [lambda logits: int(logits.argmax())] * len(prompts) if options.sampling == "host" else []
    engine, fabric = Engine(program, spec, all_tensors.__getitem__, draws), Fabric(program, machine_spec, SOFTWARE)
    costs = [fabric.prefill_cost(index, dict(engine.routing.pairs)) for index in engine.prefill(*prompts)]
    ids, worst = [list(prompt) for prompt in prompts], 0.0
    for step in range(steps + 1):
        for known, got in zip(ids, engine.logits, strict=True):
            expected = plain_logits(spec, source or all_tensors.__getitem__, known)[-1]
            worst = max(worst, worst_error(got, expected))
        for known, token in zip(ids, engine.tokens, strict=True):
            known.append(token)
        if step < steps:
            engine.decode()
            costs.append(fabric.decode_cost(*(n + step for n in lengths), expert_tokens=dict(engine.routing.pairs)))
    return WaferRun(engine=engine, program=program, machine=machine_spec, costs=costs, worst=worst)
