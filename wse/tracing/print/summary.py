"""Output of ``wse inspect TRACE``: what was run and where its cycles went, on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.console import Console

from wse.reports.number_text import count, in_bytes, percent, plural, seconds
from wse.reports.shared_tables import (
    FULLEST_PE,
    causes_table,
    experts_table,
    mapping_with_summary,
    prompt_transfer_text,
    sram_table,
    stages_text,
    tokens_text,
    wafer_line,
)
from wse.reports.table import Column, Table, pair_table
from wse.reports.terminal import bar, heading, lines, printable
from wse.reports.terminal_table import print_table
from wse.tracing.print.links import link_line, print_wavelets
from wse.tracing.print.steps import step_table
from wse.tracing.query.costs.step_sums import cycle_fraction
from wse.tracing.query.costs.tree import kind_totals
from wse.tracing.query.places.stages import Stage, narrow_attention
from wse.tracing.query.summary import SummaryView, TracedUser
from wse_mappings.strategies.catalogue import bundled_strategies

MAX_TEXT: Final = 120
MAX_USERS: Final = 3
MAX_KINDS: Final = 8
MAX_STEPS: Final = 3
HASH: Final = "hash of the compiled model, to recognise it in other traces"
TO_HOST: Final = " in both directions: token ids, or logits if the host samples"
OUTPUT: Final = ("output", "projection after attention; head: product with the vocabulary (logits)")
"""Explanation of two kinds of op with similar names, as a label and a text."""


class _PhaseSpeed(NamedTuple):
    """Row in the table of speeds: cycles, time and token rate of a phase, as formatted text."""

    name: str
    cycles: str
    time: str
    rate: str


def print_summary(console: Console, view: SummaryView) -> None:
    """Print the summary of a trace, including its busiest link and its costliest steps."""
    heading(console, "Trace", printable(view.trace))
    system, wafer = view.system, view.wafer
    rows = [
        ("model", printable(view.model.name)),
        ("wafer", wafer_line(wafer.name, wafer.rows, wafer.cols, wafer.clock_hz, system.wafers)),
        ("mapping", f"{mapping_with_summary(system.mapping, bundled_strategies())}; {stages_text(system.stages)}"),
        *_attention(system.stages),
        ("tokens", f"{tokens_text(view.prompt_tokens, view.generated_tokens)}{_max_tokens(view)}"),
        *_texts(view.users),
        ("written by", f"{printable(view.created_by)}; {HASH}: {view.program_digest[:16]}"),
    ]
    lines(console, rows)
    if speeds := _speeds(view):
        columns = tuple(Column(key=name, numeric=True) for name in _PhaseSpeed._fields)
        footer = _prompt_transfer(view)
        note = "" if view.decode is None else f"decode: mean of {plural(view.decode.passes, 'token')}"
        table = Table(title="Speed of the emulated wafer", note=note, footer=footer, columns=columns, rows=speeds)
        print_table(console, table)
    if view.decode is not None:
        print_table(console, causes_table(view.decode.cycles_by, width=console.width))
    if sram_uses := view.sram.fullest_pe_bytes:
        note = _sram_note(view, view.sram.stages.index(sram_uses))
        print_table(console, sram_table(sram_uses, title=FULLEST_PE, note=note, width=console.width))
    _print_kinds(console, view)
    _print_traffic(console, view)
    if view.experts is not None:
        print_table(console, experts_table(view.experts.to_dict()["load"]))
    if view.wavelets is not None:
        print_wavelets(console, view.wavelets)
    if view.steps:
        steps = view.steps[:MAX_STEPS]
        note = f"the {len(steps)} largest (--steps: more), summed over the run; share of the phase's cycles"
        print_table(console, step_table(steps, title="Costliest steps", note=note))
    lines(console, [("", ""), ("more", "--tree, --steps, --by kind, --links, --pe ROW,COL, --tokens; see --help")])


def _prompt_transfer(view: SummaryView) -> list[tuple[str, str]]:
    """Return a (label, text) row, as a list, that states how long prefill waits for the prompt.

    The host sends the prompt to the wafers. The list is empty if prefill does not wait.
    """
    prefill = view.prefill
    if prefill is None:
        return []
    text = prompt_transfer_text(prefill.passes * prefill.cycles_by["host"], view.wafer.clock_hz)
    return [("host", f"{text}; TTFT also contains the transfer of the first token to the host")] if text else []


def _sram_note(view: SummaryView, stage: int) -> str:
    """Return a note about the fullest PE: its stage, and the capacity of its KV cache in tokens.

    The note has the stage only if there are several.
    """
    notes = [f"in stage {stage}"] if len(view.system.stages) > 1 else []
    if "context" in view.options:
        users = " of each user" if len(view.users) > 1 else ""
        notes.append(f"KV cache for {count(view.options['context'])} tokens{users}")
    return "; ".join(notes)


def _max_tokens(view: SummaryView) -> str:
    """Return a phrase such as " of at most 100" with the maximum number of new tokens.

    The phrase is empty if the maximum was reached.
    """
    max_tokens = len(view.users) * int(view.options.get("new_tokens", 0))
    return f" of at most {max_tokens:,}" if view.generated_tokens < max_tokens else ""


def _attention(stages: Sequence[Stage]) -> list[tuple[str, str]]:
    """Return a (label, text) row saying how many PE columns of a stage compute attention.

    A stage is a part of the model, stored on one region of PEs. The result is empty if attention
    always uses all columns of a stage, or if the trace does not record them.
    """
    columns = " or ".join(map(str, narrow_attention(stages)))
    return [("attention", f"on {columns} columns in the middle of each stage that has more")] if columns else []


def _texts(users: Sequence[TracedUser]) -> list[tuple[str, str]]:
    """Return a (label, start of the text) row for each of the first users of a run."""
    rows = []
    for number, user in enumerate(users[:MAX_USERS], start=1):
        text = printable(user.text[:MAX_TEXT]).replace("\\n", " ⏎ ")
        if text:
            name = "text" if len(users) == 1 else f"text {number}"
            rows.append((name, text + (" ..." if len(user.text) > MAX_TEXT else "")))
    if rows and len(users) > MAX_USERS:
        rows.append(("", f"and {plural(len(users) - MAX_USERS, 'text')} more"))
    return rows


def _speeds(view: SummaryView) -> list[_PhaseSpeed]:
    """Return a row for each phase that ran: cycles, time and, for decode, the token rate."""
    clock_hz, prefill, decode, verify = view.wafer.clock_hz, view.prefill, view.decode, view.verify
    speeds = []
    if prefill is not None:
        cycles = f"{count(prefill.cycles)} cycles in {plural(prefill.passes, 'chunk')}"
        speeds.append(_PhaseSpeed("prefill", cycles, seconds(prefill.cycles / clock_hz), ""))
    if decode is not None:
        cycles = f"{count(decode.cycles_per_pass)} cycles per token"
        rate = f"{count(decode.tokens_per_s or 0.0)} tokens/s"
        speeds.append(_PhaseSpeed("decode", cycles, seconds(decode.cycles_per_pass / clock_hz), rate))
    if verify is not None:
        cycles = f"{count(verify.cycles_per_pass)} cycles per pass"
        speeds.append(_PhaseSpeed("verification", cycles, seconds(verify.cycles_per_pass / clock_hz), ""))
    return speeds


def _print_traffic(console: Console, view: SummaryView) -> None:
    """Print the busiest link, and the bytes sent between wafers or to and from the host."""
    traffic = [("busiest link", link_line(view.links[0]))] if view.links else []
    if view.crossing.bytes:
        has_wafers = view.system.wafers > 1
        ends, contents = ("crossings", " between wafers and with the host") if has_wafers else ("host", TO_HOST)
        traffic.append((ends, f"{in_bytes(view.crossing.bytes)}{contents}"))
    if traffic:
        print_table(console, pair_table(traffic, "Traffic", "over the whole run"))


def _print_kinds(console: Console, view: SummaryView) -> None:
    """Print a table of the op kinds, such as ``norm``, that take the most cycles in a pass.

    The cycles of all layers are added up.
    """
    phase = "prefill" if view.decode is None else "decode"
    kinds = kind_totals(view.tree, phase)
    total = view.phases[phase].cycles_per_pass if phase in view.phases else 0.0
    if not total:
        return
    width = 14 if console.width < 90 else 32
    title = "Decode cycles" if phase == "decode" else "Cycles of a mean prompt chunk"
    columns = (
        Column(key="kind"),
        Column(key="bar", cell=lambda kind: bar(cycle_fraction(kind.cycles, total), width, "compute")),
        Column(key="share", cell=lambda kind: percent(cycle_fraction(kind.cycles, total)), numeric=True),
        Column(key="cycles", cell=lambda kind: count(kind.cycles), numeric=True),
        Column(key="ops", cell=lambda kind: plural(kind.ops, "op")),
    )
    footer = [OUTPUT] if {"output", "head"} <= {kind.kind for kind in kinds[:MAX_KINDS]} else []
    if len(kinds) > MAX_KINDS:
        other_cycles = sum(kind.cycles for kind in kinds[MAX_KINDS:])
        share = percent(cycle_fraction(other_cycles, total))
        footer.append(("others", f"{plural(len(kinds) - MAX_KINDS, 'kind')}: {share}, {count(other_cycles)} cycles"))
    table = Table(
        title=f"{title} by kind of op",
        note=f"{'mean decode pass, ' if phase == 'decode' else ''}all layers together",
        columns=columns,
        rows=kinds[:MAX_KINDS],
        footer=footer,
    )
    print_table(console, table)
