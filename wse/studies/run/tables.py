"""The tables of a run: answers, speed of the emulated wafer, traffic, and the emulation."""

from __future__ import annotations

import shlex

from wse.report.cause_bars import TITLE, causes_table
from wse.report.placement_lines import sram_table
from wse.report.table import Column, Table, pair_table
from wse.report.terminal import count, in_bytes, seconds, several, shown, shown_text
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import SRAM_TITLE, fullest_note, placement_table
from wse.studies.run.result import AnswerResult, RunResult


def run_tables(result: RunResult) -> tuple[Table, ...]:
    """All tables of a run."""
    tables = [answer_table(number, user) for number, user in enumerate(result.users, start=1)]
    tables += [speed_table(result), placement_table(result.model, result.wafer, result.system)]
    note = fullest_note(result.sram, result.batch)
    tables.append(sram_table(result.sram.bytes_per_pe, title=SRAM_TITLE, note=note))
    if result.defects is not None:
        tables.append(defects_table(result.defects))
    if result.decode is not None:
        tables += [causes_table(result.decode.cycles_by, title=TITLE), traffic_table(result)]
    return (*tables, emulation_table(result))


def answer_table(number: int, user: AnswerResult) -> Table:
    """The answer to one of several users."""
    read, generated = several(user.prompt_tokens, "token"), several(len(user.tokens), "token")
    row = ("generated", ids_text(user.tokens)) if user.text is None else ("text", shown_text(user.text))
    return pair_table([row], f"Prompt {number}", f"{read}, and {generated} generated")


def ids_text(tokens: tuple[int, ...]) -> str:
    """Token ids with commas between."""
    return ", ".join(map(str, tokens))


def speed_table(result: RunResult) -> Table:
    """Tokens a second of the prompt and of generation."""
    prefill, decode = result.prefill, result.decode
    rows = [
        (
            "prompt",
            f"{count(prefill.tokens_per_s)} tokens/s",
            f"{count(prefill.cycles)} cycles",
            seconds(prefill.s),
        )
    ]
    if decode is not None:
        rate, cycles = (
            f"{count(decode.tokens_per_s_per_user)} tokens/s",
            f"{count(decode.cycles_per_token)} cycles a token",
        )
        rows.append(("generation", rate, cycles, seconds(decode.cycles_per_token / result.wafer.clock_hz)))
        if result.batch > 1:
            users = f"{several(result.batch, 'user')}, a token each"
            rows.append(("of all users", f"{count(decode.tokens_per_s)} tokens/s", users, ""))
    keys = ("name", "rate", "cycles", "time")
    return Table(
        columns=tuple(Column(key=key, numeric=True) for key in keys),
        rows=[dict(zip(keys, row, strict=True)) for row in rows],
        title="Speed of the emulated wafer",
    )


def traffic_table(result: RunResult) -> Table:
    """Words over links, and bytes between wafers, for a generated token."""
    fabric, crossing = result.fabric, result.crossing
    hops, words = fabric.wavelet_hops_per_token or 0, fabric.busiest_link_words_per_token or 0
    rows = [
        ("wavelets", f"{count(hops)} hops of 32-bit words over links between PEs"),
        ("busiest link", f"{count(words)} words"),
        ("colours", f"{fabric.colours_used} in use where most are"),
    ]
    if crossing is not None and result.system.wafers > 1:
        text = f"{in_bytes(crossing.bytes_per_token)}, {seconds(crossing.s_per_token)}"
        rows.insert(2, ("between wafers", text))
    return pair_table(rows, "Traffic of a generated token")


def emulation_table(result: RunResult) -> Table:
    """The speed of this computer, and the trace."""
    emulation, wavelets = result.emulation, result.wavelets
    tokens = sum(len(user.tokens) for user in result.users)
    speed = f"{count(emulation.tokens_per_s)} tokens/s on this computer"
    rows = [("speed", f"{speed}: {several(tokens, 'token')}, {seconds(emulation.wall_s)} in all")]
    if result.trace is not None:
        rows.append(("trace", shown(result.trace)))
        if wavelets is not None:
            text = f"{count(wavelets.moves)} moves of the last pass in the trace, {count(wavelets.cycles)} cycles"
            rows.append(("by wavelets", text))
        rows.append(("look inside", shown(f"wse inspect {shlex.quote(result.trace)}")))
    if result.trace_error is not None:
        rows.append(("no trace" if result.trace is None else "incomplete", shown(result.trace_error)))
    return pair_table(rows, "This emulation")
