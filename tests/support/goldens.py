"""A run on a mesh against what another framework computed for the same weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from session import session

TOLERANCE = 1e-4  # of the largest logit


def check(case: Mapping[str, Any], model: Path, **machine: Any) -> None:
    """Assert that float32 tokens equal those of ``case`` and that logits are within TOLERANCE.

    ``case`` has prompt_ids, the ids that follow, and the logits before the first and the last of them. ``machine`` is
    what `session` takes.
    """
    run = session(
        model, prompt=case["prompt_ids"], new_tokens=len(case["ids"]), sram_bytes=1 << 20, logits=True, **machine
    )
    check_logits(case, run.forced(case["ids"]), TOLERANCE)


def check_logits(case: Mapping[str, Any], logits: npt.NDArray[np.floating[Any]], tolerance: float) -> None:
    """Assert that ``logits`` before each of the case's ids lead to them, and that those it has are the same.

    ``tolerance`` is relative to the largest logit.
    """
    assert logits.argmax(axis=1).tolist() == case["ids"]
    for got, name in ((logits[0], "logits_first"), (logits[-1], "logits_last")):
        expected = np.array(case[name])
        worst = float(np.abs(got - expected).max() / np.abs(expected).max())
        assert worst <= tolerance, f"{name} differ by {worst:.2e} of the largest, allowed {tolerance:.0e}"
