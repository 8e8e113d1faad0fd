"""Prices of ``wse scenario --price``: each machine of a scenario gets the prices that apply to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.hardware.load import load_wafer
from wse.serving.gpus.load import load_gpu
from wse.serving.prices import WAFER, Price, check_prices, prices_under, unused_prices_note
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import replace_options
from wse.studies.scenario.request import Scenario


def with_prices(scenario: Scenario, price: Price | None) -> Scenario:
    """Return a copy of a scenario in which machines have the stated prices.

    The prices override those of the table ``[prices]``. A note names the prices that no machine
    uses.

    Args:
        scenario: The scenario.
        price: Prices as stated with ``--price``; None keeps the prices of the scenario.

    Raises:
        UnknownName: One of the names matches no machine.
        BadInput: A price is invalid, or there are two prices of the same machine.
    """
    if price is None:
        return scenario
    names: Sequence[tuple[str, ...]] = [_price_names(setting.request) for setting in scenario.settings]
    check_prices(price, names)
    settings = (
        replace(setting, request=replace_options(setting.request, price=prices_under(price, own_names)))
        for setting, own_names in zip(scenario.settings, names, strict=True)
    )
    used_names = {name for own_names in names for name in own_names}
    return replace(scenario, settings=tuple(settings), note=unused_prices_note(price, used_names))


def _price_names(request: EstimateRequest) -> tuple[str, ...]:
    """Return the names under which the machine of a request can have a price."""
    if request.gpu is not None:
        return (load_gpu(request.gpu).name,)
    return WAFER, load_wafer(request.machine.wafer).name
