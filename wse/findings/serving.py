"""Serving: a model that users share on some machines, and what a token of theirs costs."""

from __future__ import annotations

from dataclasses import dataclass

from wse.serving.cost import usd_per_million_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A number of users on some machines.

    Attributes:
        machines: GPUs or wafers.
        users: Users whose tokens are decoded together, or are in flight.
        rate_of_user: Tokens a second of each user.
        machine_usd_per_hour: The price of a machine's hour.
    """

    machines: int
    users: int
    rate_of_user: float
    machine_usd_per_hour: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second of all users."""
        return self.users * self.rate_of_user

    @property
    def usd_per_million_tokens(self) -> float:
        """Dollars of a million tokens."""
        return usd_per_million_tokens(self.machines, self.machine_usd_per_hour, self.tokens_per_s)

    def cost_ratio(self, other: Serving) -> float:
        """The machine seconds of a token over those of another case on the same kind of machine."""
        return (self.machines / self.tokens_per_s) / (other.machines / other.tokens_per_s)
