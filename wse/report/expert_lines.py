"""What people see of the load of experts."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from wse.report.terminal import count, heading, lines, percent, several


def print_experts(console: Console, load: list[dict[str, Any]]) -> None:
    """How evenly tokens went to experts: in all, and the expert that got the largest share of its layer's."""
    heading(console, "Experts", "tokens that were routed to them")
    rows = []
    for phase, what in (("prompt", "of the prompt"), ("generated", "of generated tokens")):
        shares = [(max(tokens) / total, layer) for layer, tokens, total in _of(load, phase) if total]
        if not shares:
            continue
        largest, layer = max(shares, key=lambda share: share[0])
        tokens = next(tokens for at, tokens, _ in _of(load, phase) if at == layer)
        idle = sum(tokens.count(0) for _, tokens, _ in _of(load, phase))
        even = percent(1 / len(tokens))
        busiest = f"{percent(largest)} to expert {tokens.index(max(tokens))} of layer {layer}, {even} would be even"
        rows += [(what, busiest), ("", f"{count(idle)} of {several(_experts(load, phase), 'expert')} got none")]
    lines(console, rows)


def _of(load: list[dict[str, Any]], phase: str) -> list[tuple[int, list[int], int]]:
    """(layer, tokens by expert, their sum) of each layer."""
    return [(each["layer"], each[phase], sum(each[phase])) for each in load]


def _experts(load: list[dict[str, Any]], phase: str) -> int:
    return sum(len(each[phase]) for each in load)
