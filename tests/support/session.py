"""Running a model on a mesh, for tests: one call from folder and sizes to tokens and logits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from compiled import compile_model

from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice
from wse.compiler.options import OPTIMIZED, Options
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on
from wse.hardware.spec import WaferSpec
from wse.models.load import LoadedModel, load_model
from wse.program.program import Program

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


def region_options(**wanted: Any) -> Options:
    """Options of one region on one wafer in float32, except for what is given."""
    plain = {"mapping": "region", "wafers": 1, "dtype": "float32", "accumulate": "float32"}
    return Options(**plain | wanted)


def nll(logits: npt.NDArray[np.float32], tokens: list[int]) -> float:
    """Mean negative log-likelihood in nats of ``tokens`` under ``logits``."""
    wide = logits.astype(np.float64)
    top = wide.max(axis=1)
    normaliser = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    return float((normaliser - wide[np.arange(len(tokens)), tokens]).mean())


def worst_error(got: npt.ArrayLike, want: npt.ArrayLike) -> float:
    """Largest difference, relative to the largest value that is wanted."""
    return float(np.abs(np.asarray(got) - want).max() / np.abs(want).max())


def forced(engine: Engine, prompt: Sequence[int], tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    """Logits [len(tokens), vocabulary] that predict each of ``tokens``, which are fed whatever was predicted."""
    list(engine.prefill(prompt))
    logits = [engine.logits[0]]
    for token in tokens[:-1]:
        engine.decode([token])
        logits.append(engine.logits[0])
    return np.stack(logits)


def check_traffic(engine: Engine, costs: Sequence[PhaseCost]) -> None:
    """Check that words on every link, their hops and all bytes that crossed are those that the fabric counts."""
    words = engine.link_words()
    np.testing.assert_array_equal(sum(cost.links for cost in costs), words)
    assert sum(int(cost.traffic.hops.sum()) for cost in costs) == int(words.sum())
    assert sum(int(cost.traffic.bytes.sum()) for cost in costs) == sum(engine.streams.crossed.values())


@dataclass(kw_only=True)
class Session:
    """A compiled model in its engine, and the wafer it was compiled for."""

    engine: Engine
    program: Program
    machine: WaferSpec
    prompt: tuple[int, ...]

    def read(self, prompt: Sequence[int] = ()) -> int:
        """Run the prompt; the id that follows it."""
        list(self.engine.prefill(prompt or self.prompt))
        return self.engine.tokens[0]

    def greedy(self, count: int) -> list[int]:
        """Prompt and ``count`` greedy tokens."""
        tokens = [self.read()]
        while len(tokens) < count:
            tokens.append(self.engine.decode()[0])
        return tokens

    def forced(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """The logits that predict each of ``tokens``."""
        return forced(self.engine, self.prompt, tokens)

    def fabric(self) -> Fabric:
        """The fast timing reader of the same Program."""
        return Fabric(self.program, self.machine, SOFTWARE)

    def check_links(self, decoded: int) -> None:
        """Check that the prompt and some decoded tokens sent the words over each link that the fabric counts."""
        fabric, length = self.fabric(), len(self.prompt)
        costs = [fabric.prefill_cost(index) for index in range(len(self.program.prefill))]
        costs += [fabric.decode_cost(length + step) for step in range(decoded)]
        check_traffic(self.engine, costs)


def session(
    folder: Path,
    mesh: tuple[int, int],
    *,
    prompt: Sequence[int],
    new_tokens: int,
    sram_bytes: int | None = None,
    choice: Choice | None = None,
    logits: bool = False,
    **wanted: Any,
) -> Session:
    """Compile and load; ``wanted`` are options.

    ``choice`` fixes what the compiler would choose except for the rewrites of the schedule.
    """
    machine, loaded = wafer(*mesh, sram_bytes), model(folder)
    options = region_options(
        context=len(prompt) + new_tokens,
        prompt_tokens=(len(prompt),),
        logits_out="all" if logits else "none",
        **{"schedule": OPTIMIZED} | wanted,
    )
    if choice is None:
        program = compile_model(loaded.spec, machine, SOFTWARE, options)
    else:
        choice = replace(choice, rewrites=rewrites_of(loaded.spec, options))
        program = compile_choice(loaded.spec, machine, SOFTWARE, options, choice)
    engine = Engine(program, loaded.spec, loaded.checkpoint.rows)
    return Session(engine=engine, program=program, machine=machine, prompt=tuple(prompt))
