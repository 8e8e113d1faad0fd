"""Compiler states of a tiny model on a small mesh, before and between the passes."""

from dataclasses import replace
from typing import Any

from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import PIPELINE, first_state
from wse.compiler.state import State
from wse.models.spec import ModelSpec

OPTIONS = Options(mapping="region", wafers=1, dtype="float32", accumulate="float32", context=30, prompt_tokens=(9,))
CHOICE = Choice(prefill="thin-gemm", prefill_chunk=4, head_chunk=5)
SRAM_BYTES = 1 << 20


def begin(
    mesh: tuple[int, int],
    spec: ModelSpec | None = None,
    *,
    sram_bytes: int = SRAM_BYTES,
    choice: Choice = CHOICE,
    **options: Any,
) -> State:
    """Return the state before the first pass; ``options`` replace those of `OPTIONS`."""
    machine = wafer(*mesh, sram_bytes)
    return first_state(spec or tiny_spec(), machine, SOFTWARE, replace(OPTIONS, **options), choice)


def before(name: str, state: State) -> State:
    """Run all passes before the pass called ``name``, and return the state."""
    for step in PIPELINE:
        if step.__name__ == name:
            return state
        state = step(state)
    raise ValueError(f"no pass is called {name}")
