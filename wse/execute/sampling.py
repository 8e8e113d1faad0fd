"""Drawing the next token on the host, from logits that the wafer sent out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Sampler:
    """Draws ids with probability softmax(logits / temperature), reproducibly from a seed."""

    def __init__(self, temperature: float, seed: int) -> None:
        self._temperature = temperature
        self._random = np.random.default_rng(seed)

    def draw(self, logits: npt.NDArray[np.float32]) -> int:
        """The next id, or -1 when a logit is not finite. float32 ``[vocabulary]``; float64, by inverse transform."""
        if not np.isfinite(logits).all():
            return -1
        scaled = logits.astype(np.float64) / self._temperature
        weights = np.exp(scaled - scaled.max())
        cumulative = np.cumsum(weights)
        return int(np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right"))
