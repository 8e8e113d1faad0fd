"""Running a model on a mesh, for tests: one call from folder and sizes to tokens and logits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.compiler.options import OPTIMIZED, Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.search import compile_model
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on
from wse.hardware.spec import WaferSpec
from wse.models.load import LoadedModel, load_model
from wse.program.program import Program
from wse_mappings.cuts.expert_groups import DISTRIBUTED

SOFTWARE = load_software("tuned", "wse2")


@cache
def model(folder: Path) -> LoadedModel:
    return load_model(folder)


@cache
def golden(folder: Path) -> list[dict[str, Any]]:
    """The cases of a folder's golden.json."""
    cases = json.loads((folder / "golden.json").read_text(encoding="utf-8"))["cases"]
    return list(cases)


def wafer(rows: int, cols: int, sram_bytes: int | None = None) -> WaferSpec:
    """wse2 with a smaller mesh, and with another SRAM size where given."""
    found = mesh_on(load_wafer("wse2"), rows, cols)
    return found if sram_bytes is None else replace(found, sram_bytes_per_pe=sram_bytes)


@dataclass(kw_only=True)
class Session:
    """A compiled model in its engine, and the wafer it was compiled for."""

    engine: Engine
    program: Program
    machine: WaferSpec
    prompt: tuple[int, ...]

    def read(self, prompt: Sequence[int] = ()) -> int:
        """Run the prompt; the id that follows it."""
        for _ in self.engine.prefill(prompt or self.prompt):
            pass
        return self.engine.tokens[0]

    def greedy(self, count: int) -> list[int]:
        """Prompt and ``count`` greedy tokens."""
        tokens = [self.read()]
        while len(tokens) < count:
            tokens.append(self.engine.decode()[0])
        return tokens

    def forced(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Logits [len(tokens), vocabulary] that predict each of ``tokens``, which are fed whatever was predicted."""
        self.read()
        logits = [self.engine.logits[0]]
        for token in tokens[:-1]:
            self.engine.decode([token])
            logits.append(self.engine.logits[0])
        return np.stack(logits)

    def fabric(self) -> Fabric:
        """The fast timing reader of the same Program."""
        return Fabric(self.program, self.machine, SOFTWARE)


def session(
    folder: Path,
    mesh: tuple[int, int],
    *,
    prompt: Sequence[int],
    new_tokens: int,
    dtype: str = "float32",
    activations: str | None = None,
    accumulate: str = "float32",
    mapping: str = "region",
    wafers: int = 1,
    region: tuple[int, int] | None = None,
    sram_bytes: int | None = None,
    choice: Choice | None = None,
    logits: bool = False,
    experts: str = DISTRIBUTED,
    schedule: str = OPTIMIZED,
    verify_tokens: int = 0,
) -> Session:
    """Compile and load. ``choice`` fixes what the compiler would choose except for the rewrites of the schedule."""
    machine, loaded = wafer(*mesh, sram_bytes), model(folder)
    options = Options(
        mapping=mapping,
        wafers=wafers,
        dtype=dtype,
        activations=activations,
        accumulate=accumulate,
        context=len(prompt) + new_tokens,
        prompt_tokens=(len(prompt),),
        region=region,
        logits_out="all" if logits else "none",
        experts=experts,
        schedule=schedule,
        verify_tokens=verify_tokens,
    )
    if choice is None:
        program = compile_model(loaded.spec, machine, SOFTWARE, options)
    else:
        choice = replace(choice, rewrites=rewrites_of(loaded.spec, options))
        program = compile_choice(loaded.spec, machine, SOFTWARE, options, choice)
    assert loaded.checkpoint is not None
    engine = Engine(program, loaded.spec, loaded.checkpoint.rows)
    return Session(engine=engine, program=program, machine=machine, prompt=tuple(prompt))
