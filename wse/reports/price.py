"""Texts on the hourly price from which costs were computed."""

from __future__ import annotations

from typing import Final

from wse.reports.terminal import ranged

PriceEnds = tuple[float, float, float]
"""Hourly price: low end of its range, value, and high end."""
_PRICE: Final = "{:,g}".format


def scale_note(price: PriceEnds, machine: str) -> str:
    """Return a note on the price from which a cost column is computed.

    If the price has a range, the note also states the factors by which its ends change the costs.

    Args:
        price: Low end, value and high end in USD per hour.
        machine: Machine that the price is for, such as "wafer".
    """
    low, value, high = price
    ends = (
        ""
        if low == value == high
        else f" (x {low / value:.2f} at {_PRICE(low)}, x {high / value:.2f} at {_PRICE(high)})"
    )
    return f"at {_PRICE(value)} USD/h per {machine}{ends}"


def price_text(price: PriceEnds, machine: str, assumptions: str) -> str:
    """Return a text with a price, its range, its machine and its source.

    Args:
        price: Low end, value and high end in USD per hour.
        machine: Machine that the price is for: "wafer" or "GPU".
        assumptions: Name and value of the price and, after a colon, its source.
    """
    low, value, high = price
    return f"{ranged(value, low, high, _PRICE)} USD/h per {machine}: {assumptions.partition(': ')[2]}"
