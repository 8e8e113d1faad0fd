"""The state of an engine, taken apart by wafer and put together again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec
from wafer_runs import CHOICE, OPTIONS

from wse.backends.execute.engine import Engine
from wse.backends.execute.engine_part import EnginePart
from wse.compiler.pipeline import compile_choice
from wse.studies.run.ray.wafer_actors import merge_states, state_of_wafer

PROMPTS = ((5, 9, 31, 7), (3, 11))


@pytest.fixture(scope="module")
def engine() -> Engine:
    """An engine after two prompts and a token."""
    spec = tiny_spec()
    options = replace(OPTIONS, mapping="region", wafers=2, prompt_tokens=(4, 2), context=12)
    program = compile_choice(spec, wafer(4, 3, 1 << 20), SOFTWARE, options, CHOICE)
    engine = Engine(program, spec, tensors(spec).__getitem__)
    list(engine.prefill(*PROMPTS))
    engine.decode()
    return engine


def test_a_state_goes_to_the_engines_of_wafers_and_comes_back(engine: Engine) -> None:
    spec, whole, parts = tiny_spec(), engine.state(), []
    for number in range(2):
        part = EnginePart(engine.program, spec, tensors(spec).__getitem__, number)
        part.restore(state_of_wafer(engine.program, whole, number))
        parts.append(part.state())
    of_host = ("cache.", "host_")
    host = {name: array for name, array in whole.items() if name.startswith(of_host)}
    merged = merge_states(host, parts)
    assert merged.keys() == whole.keys()
    assert whole["crossed"].any()
    assert whole["links"].any()
    for name, array in whole.items():
        np.testing.assert_array_equal(merged[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("name", "array", "says"),
    [
        ("crossed", np.array(0), "crossed: int64 [], needed: int64 [3, 3]"),
        ("links", np.array(0), "links: int64 [], needed: int64 [2, 4, 4, 3]"),
        ("links", np.zeros((2, 4, 4, 3)), "links: float64 [2, 4, 4, 3], needed: int64 [2, 4, 4, 3]"),
        ("crossed", None, "crossed: is missing, needed: int64 [3, 3]"),
    ],
)
def test_counts_of_another_shape_are_refused_as_of_an_engine(engine: Engine, name: str, array: Any, says: str) -> None:
    arrays = {**engine.state(), name: array}
    if array is None:
        del arrays[name]
    with pytest.raises(ValueError, match="needed") as caught:
        state_of_wafer(engine.program, arrays, 0)
    assert str(caught.value) == says
    with pytest.raises(ValueError, match="needed") as refused:
        engine.restore(arrays)
    assert str(refused.value) == says
