"""Helpers that compile a model for a small mesh and execute it."""

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
from wse.hardware.spec import WaferSpec, mesh_on
from wse.models.load import LoadedModel, load_model
from wse.program.program import Program

SOFTWARE = load_software("tuned", "wse2")


@cache
def model(folder: Path) -> LoadedModel:
    return load_model(folder)


@cache
def golden(folder: Path) -> list[dict[str, Any]]:
    """Return the cases in the golden.json of a model folder."""
    cases = json.loads((folder / "golden.json").read_text(encoding="utf-8"))["cases"]
    return list(cases)


def wafer(rows: int, cols: int, sram_bytes: int | None = None) -> WaferSpec:
    """Return a WSE-2 with a smaller mesh, and with another SRAM size per PE unless ``sram_bytes`` is None."""
    found = mesh_on(load_wafer("wse2"), rows, cols)
    return found if sram_bytes is None else replace(found, sram_bytes_per_pe=sram_bytes)


def region_options(**changes: Any) -> Options:
    """Return options for one region on one wafer in float32; ``changes`` replace or add options."""
    defaults = {"mapping": "region", "wafers": 1, "dtype": "float32", "accumulate": "float32"}
    return Options(**defaults | changes)


def nll(logits: npt.NDArray[np.float32], tokens: list[int]) -> float:
    """Return the mean negative log-likelihood of ``tokens`` under ``logits``, in nats."""
    logits_f64 = logits.astype(np.float64)
    top = logits_f64.max(axis=1)
    normaliser = top + np.log(np.exp(logits_f64 - top[:, None]).sum(axis=1))
    return float((normaliser - logits_f64[np.arange(len(tokens)), tokens]).mean())


def worst_error(got: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the largest difference, relative to the largest expected value."""
    return float(np.abs(np.asarray(got) - expected).max() / np.abs(expected).max())


def forced(engine: Engine, prompt: Sequence[int], tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    """Run a prompt and decode the given tokens, whatever the model predicts.

    Returns:
        float32 ``[len(tokens), vocabulary]``: the logits that predict each of ``tokens``.
    """
    list(engine.prefill(prompt))
    logits = [engine.logits[0]]
    for token in tokens[:-1]:
        engine.decode([token])
        logits.append(engine.logits[0])
    return np.stack(logits)


def check_traffic(engine: Engine, costs: Sequence[PhaseCost]) -> None:
    """Check that words per link, total hops and bytes between wafers equal those of the fabric model."""
    words = engine.link_words()
    np.testing.assert_array_equal(sum(cost.links for cost in costs), words)
    assert sum(int(cost.traffic.hops.sum()) for cost in costs) == int(words.sum())
    assert sum(int(cost.traffic.bytes.sum()) for cost in costs) == sum(engine.streams.crossed.values())


@dataclass(kw_only=True)
class Session:
    """A compiled model, the engine that executes it, and its wafer.

    Attributes:
        engine: Executes the Program.
        program: The compiled model.
        machine: The wafer for which the model was compiled.
        prompt: Default prompt.
    """

    engine: Engine
    program: Program
    machine: WaferSpec
    prompt: tuple[int, ...]

    def read(self, prompt: Sequence[int] = ()) -> int:
        """Run a prompt, by default that of the session, and return the next token."""
        list(self.engine.prefill(prompt or self.prompt))
        return self.engine.tokens[0]

    def greedy(self, count: int) -> list[int]:
        """Run the prompt and return the next ``count`` tokens of greedy decoding."""
        tokens = [self.read()]
        while len(tokens) < count:
            tokens.append(self.engine.decode()[0])
        return tokens

    def forced(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Run the prompt, decode ``tokens``, and return the logits that predict each of them."""
        return forced(self.engine, self.prompt, tokens)

    def fabric(self) -> Fabric:
        """Return the fabric model of the same Program."""
        return Fabric(self.program, self.machine, SOFTWARE)

    def check_links(self, decoded: int) -> None:
        """Check the traffic of the prompt and of ``decoded`` decoded tokens against the fabric model."""
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
    **option_values: Any,
) -> Session:
    """Compile a model and load it into an engine.

    Args:
        folder: Folder of the model.
        mesh: Rows and columns of the wafer.
        prompt: Token ids; their number is the length for which the model is compiled.
        new_tokens: Maximum number of generated tokens.
        sram_bytes: SRAM per PE; None for that of a WSE-2.
        choice: Choice of the compiler, except for its rewrites; None to search for the best one.
        logits: Whether all logits are returned to the host.
        option_values: Further options.
    """
    machine, loaded = wafer(*mesh, sram_bytes), model(folder)
    options = region_options(
        context=len(prompt) + new_tokens,
        prompt_tokens=(len(prompt),),
        logits_out="all" if logits else "none",
        **{"schedule": OPTIMIZED} | option_values,
    )
    if choice is None:
        program = compile_model(loaded.spec, machine, SOFTWARE, options)
    else:
        choice = replace(choice, rewrites=rewrites_of(loaded.spec, options))
        program = compile_choice(loaded.spec, machine, SOFTWARE, options, choice)
    engine = Engine(program, loaded.spec, loaded.checkpoint.rows)
    return Session(engine=engine, program=program, machine=machine, prompt=tuple(prompt))
