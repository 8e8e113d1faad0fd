"""Texts on prices: what a cost is for, its range, and the price per hour that it was computed from."""

from __future__ import annotations

from typing import Final

from wse.reports.terminal import count, ranged, users_text

PriceEnds = tuple[float, float, float]
"""Low end of the range of a price per hour, the price, and the high end."""
_PRICE: Final = "{:,g}".format


def cost_note(cost: tuple[float, float], price: PriceEnds, machine: str, users: int) -> str:
    """Return what stands next to a cost: what it is the cost of, both ends of its range, and the price."""
    (cheap, expensive), (low, value, high) = cost, price
    ends = "" if cheap == expensive else f", {count(cheap)} to {count(expensive)}"
    return (
        f"per million tokens with {users_text(users)}{ends}, at {ranged(value, low, high, _PRICE)} USD/h per {machine}"
    )


def scale_note(price: PriceEnds, machine: str) -> str:
    """Return a note for a column of costs: the price, and what its ends do to each cost of the column."""
    low, value, high = price
    ends = (
        ""
        if low == value == high
        else f" (x {low / value:.2f} at {_PRICE(low)}, x {high / value:.2f} at {_PRICE(high)})"
    )
    return f"at {_PRICE(value)} USD/h per {machine}{ends}"
