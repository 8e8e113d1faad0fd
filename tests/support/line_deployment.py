"""LineDeployment: a machine whose users are slower in proportion to their number, for tests of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.hardware.number import SourcedNumber
from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape
from wse.serving.steady_state import SteadyState

SHAPE: Final = RequestShape(prompt_tokens=10, new_tokens=101)


def economics_of(usd_per_hour: float, low: float, high: float, power_w: float = 1_000.0) -> Economics:
    """Return a price with a range, and a power without one."""
    price = SourcedNumber(value=usd_per_hour, unit="USD/h", grade="I", source="test", range=(low, high))
    power = SourcedNumber(value=power_w, unit="W", grade="I", source="test")
    return Economics(kind="gpu", sources={"gpu_usd_per_hour": price, "gpu_power_w": power})


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
        return economics_of(*self.usd_per_hour)

    def steady_state(self, concurrency: float) -> SteadyState:
        ttft_s = concurrency / 10
        answer_s = (self.shape.new_tokens - 1) * (1 + concurrency / 10) / self.speed
        rate = concurrency / (ttft_s + answer_s)
        return SteadyState(ttft_s=ttft_s, answer_s=answer_s, requests_per_s=rate, saturated=False)
