"""Tables and phrases shared by studies and trace views: cycles, SRAM, experts, prices, tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wse.reports.number_text import count, hertz, percent, plural, seconds
from wse.reports.table import Column, Table, number, pair_table
from wse.reports.terminal import NARROW, WIDEST, bar, printable

if TYPE_CHECKING:
    from wse_mappings.strategies.strategy import Strategy

PriceEnds = tuple[float, float, float]
"""Hourly price: low end of its range, value, and high end."""
_PRICE: Final = "{:,g}".format


def scale_note(price: PriceEnds, machine: str) -> str:
    """Return a note on the price that a cost column assumes, such as ``at 60 USD/h per wafer``.

    If the price has a range, the note also states the factors by which the costs change at the low
    and the high end.

    Args:
        price: Low end, value and high end in USD per hour.
        machine: Type of machine that the price is for, such as "wafer".
    """
    low, value, high = price
    ends = (
        ""
        if low == value == high
        else f" (range {_PRICE(low)} to {_PRICE(high)}: costs x {low / value:.2f} to x {high / value:.2f})"
    )
    return f"at {_PRICE(value)} USD/h per {machine}{ends}"


def price_text(price: PriceEnds, machine: str, source: str = "") -> str:
    """Return a phrase with a price, its range, the effect of the range on costs, and its source.

    Args:
        price: Low end, value and high end in USD per hour.
        machine: Type of machine that the price is for, such as "wafer".
        source: Source of the price; empty to leave it out.
    """
    return "; ".join(filter(None, (scale_note(price, machine), source)))


def price_source(assumptions: str) -> str:
    """Return the source of a price, without the price itself.

    >>> price_source("wafer_usd_per_hour 60 USD/h: given with --price")
    'given with --price'

    Args:
        assumptions: Name, value, unit and source of the price, as in the ``assumptions`` of a cost.
    """
    return assumptions.partition(": ")[2]


def tile_name(name: str) -> str:
    """Return the displayed name of a buffer that stores weights.

    If the buffer stores several tensors, the common prefix of their names is written once. The pair
    ``gate`` and ``up`` is written as the op ``gate_up``.

    >>> tile_name("layers.0.q+layers.0.k+layers.0.v"), tile_name("layers.0.gate+layers.0.up")
    ('layers.0.q+k+v', 'layers.0.gate_up')
    """
    first, *further_names = name.split("+")
    stem = first[: first.rfind(".") + 1]
    display_name = "+".join([first, *(further_name.removeprefix(stem) for further_name in further_names)])
    for prefix in ("", "shared_"):
        display_name = display_name.replace(f"{prefix}gate+{prefix}up", f"{prefix}gate_up")
    return display_name


Name = TypeVar("Name", bound=str)

CAUSES: Final[dict[str, str]] = {
    "compute": "vector instructions in the PEs",
    "launch": "starting kernels and messages",
    "hops": "words in transit between PEs",
    "relays": "words forwarded in software by PEs",
    "crossing": "words travelling between wafers",
    "host": "transfers to and from the host",
}
"""Descriptions of the causes of cycles."""
FULLEST_PE: Final = "SRAM of the fullest PE (core)"
"""Title of the table of SRAM bytes by use."""
USES: Final[dict[str, str]] = {
    "code": "code, stack, runtime",
    "weights": "weights with padding",
    "kv": "KV cache",
    "state": "state",
    "activations": "activations",
    "buffers": "messages, scratch",
    "free": "free",
}
"""Displayed names of the uses of SRAM."""


def causes_table(by: Mapping[Name, float], *, width: int = WIDEST) -> Table:
    """Return a table of a generated token's cycles, broken down by cause, largest first.

    Causes without cycles are left out.

    Args:
        by: Number of cycles per cause, such as compute, launch or hops.
        width: Width of a line in characters.
    """
    total = sum(by.values()) or 1.0
    rows = [
        {"cause": cause, "share": cycles / total, "cycles": cycles, "meaning": CAUSES.get(cause, "")}
        for cause, cycles in sorted(by.items(), key=lambda item: -item[1])
        if cycles
    ]
    bar_width = 14 if width < NARROW else 32
    columns = (
        Column(key="cause"),
        Column(key="bar", cell=lambda row: bar(row["share"], bar_width, row["cause"]), priority=1),
        number("share", formatter=percent),
        number("cycles"),
        Column(key="meaning"),
    )
    return Table(
        columns=columns,
        rows=rows,
        title="Decode cycles by cause",
        note="mean decode pass (one token per user), which takes the sum of these cycles",
    )


def prompt_transfer_text(host_cycles: float, clock_hz: float) -> str:
    """Return a phrase that states how long prefill waits for the prompt to arrive from the host.

    Args:
        host_cycles: Number of cycles for which prefill waits. The result is empty if it is 0.
        clock_hz: Clock frequency of the wafer.
    """
    if not host_cycles:
        return ""
    cycles = f"{count(host_cycles)} of the prefill cycles ({seconds(host_cycles / clock_hz)})"
    return f"{cycles} are the transfer of the prompt from the host"


def sram_table(uses: Mapping[Name, int], *, title: str, note: str = "", width: int = WIDEST) -> Table:
    """Return a table of one PE's SRAM bytes, broken down by use, with bars.

    Args:
        uses: Number of bytes per use, such as weights or KV cache, including free bytes.
        title: Title of the table.
        note: Remark after the title.
        width: Width of a line in characters.
    """
    total = sum(uses.values())
    rows = [{"use": use, "bytes": bytes_, "fraction": bytes_ / total} for use, bytes_ in uses.items()]
    bar_width = 24 if width < NARROW else 40
    columns = (
        Column(key="use", formatter=lambda use: USES.get(use, use)),
        Column(key="bar", cell=lambda row: bar(row["fraction"], bar_width, row["use"]), priority=1),
        number("bytes", formatter=lambda bytes_: f"{count(bytes_)} B"),
        number("fraction", formatter=percent),
    )
    return Table(columns=columns, rows=rows, title=title, note=note)


def wafer_line(name: str, rows: int, cols: int, clock_hz: float, wafers: int) -> str:
    """Return a description of the wafers of a run: ``8x8 = 64 PEs (cores) of wse2 at 850 MHz``.

    Args:
        name: Name of the wafer type.
        rows: Number of PE rows.
        cols: Number of PE columns.
        clock_hz: Clock frequency.
        wafers: Number of wafers.
    """
    multiple = "" if wafers == 1 else f"{plural(wafers, 'wafer')}, each "
    mesh = f"{rows}x{cols} = {plural(rows * cols, 'PE')} (core{'s' * (rows * cols > 1)})"
    return f"{multiple}{mesh} of {printable(name)} at {hertz(clock_hz)}"


def mapping_with_summary(name: str, strategies: Mapping[str, Strategy]) -> str:
    """Return the name of a mapping and, in brackets, what it does.

    A mapping that is not among the strategies, such as one from a user's file, has only its name.

    Args:
        name: Name of the mapping.
        strategies: Known mapping strategies, keyed by name.
    """
    if name not in strategies:
        return printable(name)
    summary = printable(strategies[name].summary).rstrip(".")
    return f"{printable(name)} ({summary[0].lower()}{summary[1:]})"


def stages_text(stages: Sequence[Any]) -> str:
    """Return a phrase with the number of pipeline stages and of stages without layers.

    Args:
        stages: Objects with an attribute ``layers``: the first and the last layer of a stage, or
            an empty sequence if it only stores the embedding or the output head.
    """
    without_layers = sum(not stage.layers for stage in stages)
    remark = f", {without_layers} of them without layers (for embedding or output head)" if without_layers else ""
    return f"{plural(len(stages), 'pipeline stage')}{remark}"


def setting_texts(values: Mapping[str, float]) -> list[str]:
    """Return an option such as ``--set wafer.clock_hz=1.1e+09`` for each changed number."""
    return [f"--set {printable(name)}={value:.12g}" for name, value in values.items()]


_UNITS: Final = {"think_time": "s"}
"""Units of options whose values are stored as numbers."""


def inputs_table(inputs: Mapping[str, Any], replaced: Mapping[str, float]) -> Table:
    """Return the table of a request's options, with defaults filled in, in command-line form.

    Args:
        inputs: The options, including the model, keyed by name.
        replaced: Numbers of the machine that the user changed, which ``inputs`` may contain too.
    """
    options = [
        f"--{name.replace('_', '-')} {printable(value)}{_UNITS.get(name, '')}"
        for name, value in inputs.items()
        if name != "model" and name not in replaced
    ]
    rows = [("model", printable(inputs["model"])), ("options", " ".join([*options, *setting_texts(replaced)]))]
    return pair_table(rows, "Options, defaults included")


def tokens_text(prompt_tokens: int, generated_tokens: int) -> str:
    """Return the numbers of tokens of a run, such as ``prompt: 12, generated: 152``."""
    return f"prompt: {count(prompt_tokens)}, generated: {count(generated_tokens)}"


def with_settings_text(text: str, inputs: Mapping[str, Any]) -> str:
    """Return the description of a machine, followed by what the user changed.

    These are the choice of experts, if it is not even, and changed numbers of the wafer and its
    software.

    Args:
        text: Description of the machine.
        inputs: Inputs of the study. The choice of experts has the key ``routing``, and changed
            numbers have keys such as ``wafer.NAME``.
    """
    routing = [f"experts chosen as in {printable(inputs['routing'])}"] if "routing" in inputs else []
    return ", ".join([text, *routing, *setting_texts(changed_numbers(inputs))])


def prefix_text(inputs: Mapping[str, Any]) -> str:
    """Return a phrase, with a comma, that says how many prompt tokens are cached; empty if none are.

    Args:
        inputs: Inputs of a study, in which ``prefix_tokens`` is the number of these tokens.
    """
    tokens = inputs.get("prefix_tokens")
    return f", the first {int(tokens):,} prompt tokens already in the KV cache" if tokens else ""


def changed_numbers(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a study that are changed numbers of the wafer or its software."""
    return {name: value for name, value in inputs.items() if name.startswith(("wafer.", "software."))}


def experts_table(load: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table that shows how evenly tokens are distributed across experts.

    For prompts and for generated tokens, the table shows the expert with the largest fraction of
    its layer's tokens, and the number of experts without tokens.

    Args:
        load: For each layer, its index ``layer`` and the token count of each expert: ``prompt`` and
            ``generated``.
    """
    rows = []
    for phase, label in (("prompt", "of the prompt"), ("generated", "of generated tokens")):
        busy_layers = [layer for layer in load if sum(layer[phase])]
        if not busy_layers:
            continue
        busiest = max(busy_layers, key=lambda layer: max(layer[phase]) / sum(layer[phase]))
        tokens = busiest[phase]
        largest_fraction, even_fraction = percent(max(tokens) / sum(tokens)), percent(1 / len(tokens))
        expert = f"expert {tokens.index(max(tokens))} of layer {busiest['layer']}"
        experts = [tokens for layer in load for tokens in layer[phase]]
        idle = f"{count(experts.count(0))} of {plural(len(experts), 'expert')} got none"
        rows += [(label, f"{largest_fraction} to {expert}, {even_fraction} would be even"), ("", idle)]
    return pair_table(rows, "Experts", "tokens that were routed to them")
