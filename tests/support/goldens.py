"""Comparison of a run on a mesh with tokens and logits that another framework computed for the same weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from session import session

TOLERANCE = 1e-4  # of the largest logit


def check(case: Mapping[str, Any], model: Path, **machine: Any) -> None:
    """Run a model in float32; check that tokens equal those of ``case`` and that logits are within `TOLERANCE`.

    Args:
        case: Expected values: ``prompt_ids``, ``ids`` (generated), and ``logits_first`` and ``logits_last``, which
            predict the first and the last generated id.
        model: Folder of the model.
        machine: Further arguments of `session`.
    """
    run = session(
        model, prompt=case["prompt_ids"], new_tokens=len(case["ids"]), sram_bytes=1 << 20, logits=True, **machine
    )
    check_logits(case, run.forced(case["ids"]), TOLERANCE)


def check_logits(case: Mapping[str, Any], logits: npt.NDArray[np.floating[Any]], tolerance: float) -> None:
    """Check that the logits predict the ids of ``case`` and equal its first and last logits.

    Args:
        case: Expected values, see `check`.
        logits: One row per generated id, ``[ids, vocabulary]``.
        tolerance: Allowed error relative to the largest logit.
    """
    assert logits.argmax(axis=1).tolist() == case["ids"]
    for got, name in ((logits[0], "logits_first"), (logits[-1], "logits_last")):
        expected = np.array(case[name])
        worst = float(np.abs(got - expected).max() / np.abs(expected).max())
        assert worst <= tolerance, f"{name} differ by {worst:.2e} of the largest, allowed {tolerance:.0e}"
