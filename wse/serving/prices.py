"""User-specified prices of wafers and GPUs in USD per hour: ``--price wafer=60,h200=2.5``."""

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
"""Name that stands for a request's wafer in prices, regardless of its type."""
HIGHEST_USD_PER_HOUR: Final = 10**6

Price = str | Mapping[str, float]
"""Prices as specified: a string such as ``wafer=60,h200=2.5``, or an equivalent mapping."""


def read_prices(price: Price | None) -> dict[str, float]:
    """Return the prices that a user specifies, in USD per hour, keyed by machine name.

    Preset names in a different case are replaced by the proper names.

    Raises:
        BadInput: There is no price, a price lacks a name or a number, a price is out of bounds, or
            a name is repeated.
    """
    if price is None:
        return {}
    pairs = [_pair(part) for part in price.split(",")] if isinstance(price, str) else [*price.items()]
    if not pairs:
        raise BadInput("--price: has no price; give NAME=NUMBER, in USD per hour, such as wafer=60,h200=2.5")
    prices: dict[str, float] = {}
    for given_name, usd_per_hour in pairs:
        name = known_name(given_name, _known_machines()) or given_name
        if name in prices:
            raise BadInput(f"--price: {name} is given twice; keep one")
        if not 0 < usd_per_hour <= HIGHEST_USD_PER_HOUR:  # rejects NaN as well
            message = (
                f"--price {name}={usd_per_hour:g}: give USD per hour, more than 0 and at most {HIGHEST_USD_PER_HOUR:,}"
            )
            raise BadInput(message)
        prices[name] = float(usd_per_hour)
    return prices


def prices_text(price: Price | None) -> str | None:
    """Return prices in the format of the option ``--price``, or None if there are none."""
    return ",".join(f"{name}={usd_per_hour:.15g}" for name, usd_per_hour in read_prices(price).items()) or None


def check_prices(price: Price | None, machines: Iterable[Collection[str]]) -> None:
    """Check the stated prices for several machines.

    Args:
        price: Prices as stated.
        machines: For each machine, the names under which it can have a price.

    Raises:
        UnknownName: One of the names matches no machine.
        BadInput: There are two prices of the same machine.
    """
    own_names = [*machines]
    _check_names(read_prices(price), {name for names in own_names for name in names})
    for names in own_names:
        own_price(prices_under(price, names), names)


def unused_prices_note(price: Price | None, used_names: Collection[str]) -> str | None:
    """Return a note that names the stated prices that are not used, or None if all are used.

    Args:
        price: Prices as stated.
        used_names: Names under which the machines of a study can have a price.
    """
    unused_names = [name for name in read_prices(price) if name not in used_names]
    return f"--price of {' and '.join(unused_names)} has no effect" if unused_names else None


def prices_under(price: Price | None, names: Collection[str]) -> dict[str, float] | None:
    """Return the stated prices under some names, or None if there are none.

    A command that compares machines passes each machine only its own prices.

    Args:
        price: Prices as stated.
        names: Names under which one machine can have a price.
    """
    return {key: usd for key, usd in read_prices(price).items() if key in names} or None


def prices_of_gpu(price: Price | None, gpu: str | Path) -> dict[str, float] | None:
    """Return the stated prices that apply to one GPU, or None if there are none.

    Args:
        price: Prices as stated.
        gpu: Name or file of the GPU.
    """
    return prices_under(price, (load_gpu(gpu).name,))


def prices_without_gpus(price: Price | None, gpus: Iterable[str | Path]) -> dict[str, float] | None:
    """Return the stated prices without the prices of some GPUs, or None if no price remains.

    The remaining prices are for the wafer that is compared with the GPUs. Names that match no
    machine are kept; `own_price` rejects them later.

    Args:
        price: Prices as stated.
        gpus: Names or files of the GPUs.
    """
    names = {load_gpu(gpu).name for gpu in gpus}
    return {key: usd for key, usd in read_prices(price).items() if key not in names} or None


def own_price(price: Price | None, names: Collection[str]) -> float | None:
    """Return the price that the user states for one machine, in USD per hour; None if there is none.

    Prices of other known machines are ignored, so that the same prices can be given to every
    command.

    Args:
        price: Prices as stated.
        names: Names under which the machine can have a price.

    Raises:
        UnknownName: A price has a name that matches no machine.
        BadInput: Several names of this machine have a price.
    """
    prices = read_prices(price)
    _check_names(prices, names)
    own_prices = {name: usd for name, usd in prices.items() if name in names}
    if len(own_prices) > 1:
        raise BadInput(f"--price: {' and '.join(own_prices)} are the same wafer; keep one")
    return next(iter(own_prices.values()), None)


def _check_names(prices: Iterable[str], names: Collection[str]) -> None:
    """Check that each name with a price is among ``names`` or the name of a known machine.

    Raises:
        UnknownName: A name matches no machine.
    """
    for name in prices:
        if name not in names and name not in _known_machines():
            raise UnknownName("wafer or GPU", name, {*_known_machines(), *names}, place="--price")


def _known_machines() -> set[str]:
    """Return the names of all wafers and GPUs, and ``wafer``, which stands for any wafer."""
    return {WAFER, *known_wafers(), *known_gpus()}


def _pair(text: str) -> tuple[str, float]:
    """Parse the name and the price in a string such as ``h200=2.5`` (USD per hour)."""
    name, _, amount = (part.strip() for part in text.partition("="))
    usd_per_hour = read_quantity(amount, COUNT)
    if not name or usd_per_hour is None:
        raise BadInput(f"--price {text.strip()!r}: give NAME=NUMBER, in USD per hour, such as wafer=60,h200=2.5")
    return name, usd_per_hour
