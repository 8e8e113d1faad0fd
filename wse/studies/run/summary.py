"""The summary at the end of ``wse run``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console

from wse.report.cause_bars import TITLE, print_causes
from wse.report.expert_lines import print_experts
from wse.report.terminal import console_on, heading, lines
from wse.report.terminal_table import print_table
from wse.studies.results.defects_view import defects_table
from wse.studies.results.placement_view import placement_table, print_fullest
from wse.studies.run.result import RunResult
from wse.studies.run.tables import answer_table, emulation_table, ids_text, speed_table, traffic_table

MOST_LOGITS = 5


def print_run(result: RunResult, stream: TextIO) -> None:
    """Print the summary of a run whose text was printed as it grew."""
    console = console_on(stream)
    console.print()
    if result.batch > 1:
        for number, user in enumerate(result.users, start=1):
            print_table(console, answer_table(number, user))
    elif result.users[0].text is None:
        heading(console, "Token ids", "the model has no tokenizer")
        lines(console, [("generated", ids_text(result.users[0].tokens))])
    print_table(console, placement_table(result.model, result.wafer, result.system))
    print_fullest(console, result.sram, result.batch)
    if result.defects is not None:
        print_table(console, defects_table(result.defects))
    print_table(console, speed_table(result))
    if result.decode is not None:
        heading(console, TITLE)
        print_causes(console, result.decode.cycles_by)
        print_table(console, traffic_table(result))
    if result.experts is not None:
        print_experts(console, [layer.to_dict() for layer in result.experts.load])
    print_table(console, emulation_table(result))
    for number, user in enumerate(result.users, start=1):
        if user.prompt_logits_last is not None:
            which = f"{number}, " if result.batch > 1 else ""
            _print_logits(console, which, user.prompt_logits_last)


def _print_logits(console: Console, which: str, logits: Sequence[float]) -> None:
    heading(console, f"Logits after the prompt {which}".rstrip(" ,"), "the largest; --json has them all")
    best = sorted(range(len(logits)), key=lambda token: -logits[token])[:MOST_LOGITS]
    lines(console, [(f"token {token}", f"{logits[token]:.4f}") for token in best])
