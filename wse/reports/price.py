"""Texts on the price per hour that costs were computed from."""

from __future__ import annotations

from typing import Final

from wse.reports.terminal import ranged

PriceEnds = tuple[float, float, float]
"""Low end of the range of a price per hour, the price, and the high end."""
_PRICE: Final = "{:,g}".format


def scale_note(price: PriceEnds, machine: str) -> str:
    """Return a note for a column of costs: the price, and what its ends do to each cost of the column."""
    low, value, high = price
    ends = (
        ""
        if low == value == high
        else f" (x {low / value:.2f} at {_PRICE(low)}, x {high / value:.2f} at {_PRICE(high)})"
    )
    return f"at {_PRICE(value)} USD/h per {machine}{ends}"


def price_text(price: PriceEnds, machine: str, assumptions: str) -> str:
    """Return a price with its range, the machine that it is for, and its source.

    Args:
        price: Low end, value and high end in USD per hour.
        machine: What the price is for: "wafer" or "GPU".
        assumptions: Name, value and, after a colon, the source of the price.
    """
    low, value, high = price
    return f"{ranged(value, low, high, _PRICE)} USD/h per {machine}: {assumptions.partition(': ')[2]}"
