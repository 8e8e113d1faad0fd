"""What ``wse compare MODEL`` prints: a numbered table, what limits each row, what could not be, a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TextIO

from rich.console import Console

from wse.report.terminal import (
    console_on,
    count,
    heading,
    in_bytes,
    lines,
    percent,
    plain_table,
    seconds,
    several,
    short,
    show,
    shown,
)

Row = dict[str, Any]

SPEED: Final = ("#", "mapping", "wafers", "GB/s", "µs", "a user", "users", "all users", "prompt", "USD/M")
TRAFFIC: Final = ("#", "crossing", "wafer links", "host", "mesh hops", "SRAM", "power", "a token")
LEFT: Final = frozenset(("mapping", ""))
NOTES: Final = (
    ("GB/s, µs", "of each link between wafers, and its latency"),
    ("a user", "tokens/s of one batch alone on the machine, for each user of it"),
    ("users", "in flight at once: as many as was asked for and as have room for their caches"),
    ("all users", "tokens/s of them all"),
    ("prompt", "tokens/s of a prompt alone on the machine"),
    ("USD/M", "of a million tokens of all users"),
)
TRAFFIC_NOTES: Final = (
    ("crossing", "share of a token's cycles that are between wafers"),
    ("wafer links", "bytes of a token of each user of a batch; host: likewise; hops: of 32-bit words"),
    ("SRAM", "of the fullest PE in use; a token: energy at the wall, of all users"),
)
"""What the columns mean."""


def print_comparison(report: dict[str, Any], stream: TextIO) -> None:
    """Print the report of a comparison."""
    console = console_on(stream)
    heading(console, "Asked for")
    lines(console, [("inputs", ", ".join(told_inputs(report["inputs"])))])
    rows = [row for row in report["rows"] if "reason" not in row]
    heading(console, title(report))
    print_rows(console, rows)
    _print_reasons(console, [row for row in report["rows"] if "reason" in row])
    if "verdict" in report:
        heading(console, "Verdict")
        lines(console, [("", shown(sentence)) for sentence in report["verdict"]])


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """Print the tables of some rows, and what limits each."""
    print_table(console, SPEED, [speed_cells(number, row) for number, row in enumerate(rows, start=1)])
    lines(console, NOTES)
    heading(console, "Traffic of a token, and power")
    print_table(console, TRAFFIC, [traffic_cells(number, row) for number, row in enumerate(rows, start=1)])
    lines(console, TRAFFIC_NOTES)
    heading(console, "What limits a user's tokens, and the users")
    lines(console, limits(rows))


def title(report: dict[str, Any]) -> str:
    """The model and the wafer, in a line."""
    model, wafer = report["model"], report["wafer"]
    return f"{shown(model['name'])} as {model['dtype']} on {shown(wafer['name'])}, {wafer['rows']}x{wafer['cols']} PEs"


def told_inputs(inputs: dict[str, Any]) -> list[str]:
    """The inputs, each as its name and value."""
    told = []
    for name, value in inputs.items():
        if name == "links":
            told.append(f"links {' or '.join(link_text(link) for link in value)}")
        else:
            text = ", ".join(map(shown, value)) if isinstance(value, list) else shown(value)
            told.append(f"{name.replace('_', ' ')} {text}")
    return told


def speed_cells(number: int, row: Row) -> tuple[str, ...]:
    """The texts of a row under ``SPEED``."""
    return (
        str(number),
        mapping_text(row),
        count(row["wafers"]),
        _if_known(row, "link_bytes_per_s", lambda rate: f"{rate / 1e9:g}"),
        _if_known(row, "link_latency_s", lambda wait: f"{wait * 1e6:g}"),
        count(row["tokens_per_s_per_user"]),
        count(row["users"]),
        ("" if row["tokens_per_s_exact"] else "≤ ") + count(row["tokens_per_s"]),
        _if_known(row, "prefill_tokens_per_s", count),
        _if_known(row, "usd_per_million_tokens", dollars),
    )


def traffic_cells(number: int, row: Row) -> tuple[str, ...]:
    """The texts of a row under ``TRAFFIC``."""
    return (
        str(number),
        percent(row["crossing_fraction"]),
        in_bytes(row["wafer_link_bytes_per_token"]),
        in_bytes(row["host_bytes_per_token"]),
        _if_known(row, "mesh_hops_per_token", short),
        _if_known(row, "sram_fullest_pe_fraction", percent),
        _if_known(row, "power_w", lambda watts: f"{watts / 1e3:,.0f} kW"),
        _if_known(row, "joules_per_token", lambda joules: f"{joules:.3g} J"),
    )


def print_table(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = plain_table(header=True)
    table.padding = (0, 1, 0, 0)
    for name in header:
        table.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    show(console, table)


def mapping_text(row: Row) -> str:
    """The mapping that was asked for, and the one that it chose."""
    return shown(f"{row['mapping']}: {row['chosen']}" if "chosen" in row else row["mapping"])


def _if_known(row: Row, key: str, told: Callable[[float], str]) -> str:
    """The text of a number that not every row has."""
    return told(row[key]) if key in row else ""


def link_text(row: Row) -> str:
    """The link between wafers; empty for one wafer."""
    keys = ("link_bytes_per_s", "link_latency_s") if "mapping" in row else ("bytes_per_s", "latency_s")
    if keys[0] not in row:
        return ""
    rate = f"{row[keys[0]] / 1e9:g} GB/s"
    return f"{rate} {seconds(row[keys[1]])}" if row.get(keys[1]) else rate


def dollars(number: float) -> str:
    """Dollars, with cents where they matter."""
    return f"{number:,.0f}" if number >= 100 else f"{number:,.2f}"


def limits(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Each sentence once, behind the numbers of its rows."""
    found: dict[str, list[int]] = {}
    for number, row in enumerate(rows, start=1):
        found.setdefault(row["limit"], []).append(number)
    return [(_ranges(numbers), shown(sentence)) for sentence, numbers in found.items()]


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, with runs as from-to."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _print_reasons(console: Console, rows: Sequence[Row]) -> None:
    if rows:
        heading(console, "What cannot be")
        lines(console, [(f"{row['mapping']}, {several(row['wafers'], 'wafer')}", shown(row["reason"])) for row in rows])
