"""The range of every sampling option, and what to say of a value outside it."""

from __future__ import annotations

from typing import Final, NoReturn

from wse.errors import BadInput
from wse.execute.sampling import Sampling

LARGEST_FACTOR: Final = 1e6  # of temperature and penalty: far beyond use, and no logit overflows
LARGEST_SEED: Final = 2**63 - 1


def check_sampling(asked: Sampling) -> None:
    """Refuse what cannot be, or would have no effect.

    Raises:
        BadInput: a value is out of range, or limits a draw where the temperature is 0 and nothing is drawn.
    """
    if not 0.0 <= asked.temperature < LARGEST_FACTOR:
        _refuse("temperature", asked.temperature, "give 0 for greedy, or a positive number")
    if asked.top_k < 0:
        _refuse("top-k", asked.top_k, "give a number of at least 1, or 0 for no limit")
    if not 0.0 < asked.top_p <= 1.0:
        _refuse("top-p", asked.top_p, "give a number above 0, at most 1 (1: no limit)")
    if not 0.0 <= asked.min_p <= 1.0:
        _refuse("min-p", asked.min_p, "give a number from 0 (no limit) to 1")
    if not 1 / LARGEST_FACTOR <= asked.repetition_penalty <= LARGEST_FACTOR:
        _refuse("repetition-penalty", asked.repetition_penalty, "give a number above 0 (1: no penalty)")
    if not 0 <= asked.seed <= LARGEST_SEED:
        _refuse("seed", asked.seed, f"give a number from 0 to {LARGEST_SEED:,}")
    if asked.temperature == 0:
        limits = (("top-k", asked.top_k, 0), ("top-p", asked.top_p, 1.0), ("min-p", asked.min_p, 0.0))
        for name, value, none in limits:
            if value != none:
                _refuse(name, value, "nothing is drawn at temperature 0; give --temperature too, such as 0.8")


def _refuse(name: str, value: float, remedy: str) -> NoReturn:
    message = f"--{name} {value}: {remedy}"
    raise BadInput(message)
