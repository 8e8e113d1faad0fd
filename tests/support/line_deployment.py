"""LineDeployment: a machine whose users are slower in proportion to their number, for tests of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.comparison.compare.synthetic import economics
from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape
from wse.serving.steady_state import SteadyState

SHAPE: Final = RequestShape(prompt_tokens=10, new_tokens=101)


@dataclass(frozen=True, kw_only=True)
class LineDeployment:
    """Of N users each waits N / 10 s for its first token and then gets ``speed`` / (1 + N / 10) tokens/s."""

    speed: float
    usd_per_hour: tuple[float, float, float] = (2.0, 1.0, 3.0)
    chips: int = 8
    max_concurrency: int = 100
    slots: int = 1
    shape: RequestShape = SHAPE

    @property
    def economics(self) -> Economics:
        return economics("gpu", self.usd_per_hour[0], self.usd_per_hour[1:])

    def steady_state(self, concurrency: float) -> SteadyState:
        ttft_s = concurrency / 10
        answer_s = (self.shape.new_tokens - 1) * (1 + concurrency / 10) / self.speed
        rate = concurrency / (ttft_s + answer_s)
        return SteadyState(ttft_s=ttft_s, answer_s=answer_s, requests_per_s=rate, saturated=False)
