"""Prices that a user gives: ``--price wafer=60,h200=2.5``, in USD per hour of one wafer or one GPU."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from wse.errors import BadInput, UnknownName
from wse.hardware.load import known_wafers
from wse.hardware.quantity import COUNT, read_quantity
from wse.known_names import known_name
from wse.serving.gpus.load import known_gpus, load_gpu

WAFER: Final = "wafer"
"""The name of a request's wafer, whichever it is."""
HIGHEST_USD_PER_HOUR: Final = 10**6

Price = str | Mapping[str, float]
"""Prices as given: a text such as ``wafer=60,h200=2.5``, or a mapping of the same."""


def read_prices(price: Price | None) -> dict[str, float]:
    """Return given prices by name; names of presets in their own spelling, others as given.

    Raises:
        BadInput: no price, one without a name or number, a number outside the bounds, or a name given twice.
    """
    if price is None:
        return {}
    pairs = [_pair(part) for part in price.split(",")] if isinstance(price, str) else [*price.items()]
    if not pairs:
        message = "--price: has no price; give NAME=USD per hour, such as wafer=60,h200=2.5"
        raise BadInput(message)
    prices: dict[str, float] = {}
    for given_name, usd in pairs:
        name = known_name(given_name, _known()) or given_name
        if name in prices:
            message = f"--price: {name} is given twice; keep one"
            raise BadInput(message)
        if not 0 < usd <= HIGHEST_USD_PER_HOUR:  # refuses NaN as well
            message = f"--price {name}={usd:g}: give USD per hour, more than 0 and at most {HIGHEST_USD_PER_HOUR:,}"
            raise BadInput(message)
        prices[name] = float(usd)
    return prices


def wafer_price(price: Price | None, wafer: str) -> float | None:
    """Return the given price of a request's wafer, or None where none is given.

    Args:
        price: Prices as given.
        wafer: Name of the wafer; ``wafer`` names it as well.

    Raises:
        UnknownName: A name that no machine has.
        BadInput: Two prices of this wafer.
    """
    return _own_price(read_prices(price), (WAFER, wafer))


def gpu_price(price: Price | None, gpu: str) -> float | None:
    """Return the given price of a request's GPU, or None where none is given. Errors as of `wafer_price`."""
    return _own_price(read_prices(price), (gpu,))


def prices_of_gpu(price: Price | None, gpu: str | Path) -> dict[str, float] | None:
    """Return the given prices of one GPU of a request that has other machines as well; None for none."""
    name = load_gpu(gpu).name
    return {key: usd for key, usd in read_prices(price).items() if key == name} or None


def prices_without_gpus(price: Price | None, gpus: Iterable[str | Path]) -> dict[str, float] | None:
    """Return the given prices without those of a request's GPUs; None for none.

    They are for the request's wafer, for which `wafer_price` refuses names that no machine has.
    """
    names = {load_gpu(gpu).name for gpu in gpus}
    return {key: usd for key, usd in read_prices(price).items() if key not in names} or None


def _own_price(prices: Mapping[str, float], names: Collection[str]) -> float | None:
    """Return the price under one of the names of a machine; None without any.

    Prices of other known machines are allowed, so that one list of prices can be given to every command.
    """
    for name in prices:
        if name not in names and name not in _known():
            raise UnknownName("wafer or GPU", name, {*_known(), *names}, where="--price")
    own = {name: usd for name, usd in prices.items() if name in names}
    if len(own) > 1:
        message = f"--price: {' and '.join(own)} are the same wafer; keep one"
        raise BadInput(message)
    return next(iter(own.values()), None)


def _known() -> set[str]:
    return {WAFER, *known_wafers(), *known_gpus()}


def _pair(text: str) -> tuple[str, float]:
    """Return name and number of a text such as ``h200=2.5``."""
    name, _, amount = (part.strip() for part in text.partition("="))
    usd = read_quantity(amount, COUNT)
    if not name or usd is None:
        message = f"--price {text.strip()!r}: give NAME=USD per hour, such as wafer=60,h200=2.5"
        raise BadInput(message)
    return name, usd
