"""RunResult: generated tokens, their cycles and traffic, and the tables that show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TextIO

from wse.inspect.expert_load import ExpertLoadResult
from wse.report.result import Doc, Result
from wse.report.shared_tables import causes_table, experts_table
from wse.report.table import Table, number, pair_table
from wse.report.terminal import WIDEST, console_on, count, in_bytes, plural, printable, printable_text, seconds
from wse.report.terminal_table import print_tables
from wse.studies.results.defects import DefectsResult, defects_table
from wse.studies.results.phases import DecodeResult, PrefillResult, causes_figure
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult, placement_table
from wse.studies.results.sram import SramResult, fullest_table
from wse.studies.results.traffic import CrossingResult, FabricResult
from wse.studies.run.profile import ProfileResult, profile_tables
from wse.studies.run.verify import VerifiedResult, verified_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LOGITS: Final = 5
"""Logits of a prompt that are shown."""


@dataclass(frozen=True, kw_only=True)
class AnswerResult(Result):
    """The answer to one user."""

    tokens: Annotated[tuple[int, ...], Doc("generated token ids")]
    prompt_tokens: Annotated[int, Doc("tokens of the prompt")]
    prompt_ids: Annotated[tuple[int, ...] | None, Doc("their ids; of models without a tokenizer")] = None
    text: Annotated[str | None, Doc("prompt and generated text; of models with a tokenizer")] = None
    prompt_logits_last: Annotated[tuple[float, ...] | None, Doc("logits after the prompt; with `--logits`")] = None


@dataclass(frozen=True, kw_only=True)
class EmulationResult(Result):
    """The run on this computer."""

    wall_s: Annotated[float, Doc("wall time of everything", "s")]
    tokens_per_s: Annotated[float, Doc("generated tokens over the wall time of passes", "tokens/s")]
    program_digest: Annotated[str, Doc("digest of the Program: equal where the same was compiled")]


@dataclass(frozen=True, kw_only=True)
class WaveletsResult(Result):
    """The last pass carried out wavelet by wavelet, without crossings between wafers and to the host."""

    cycles: Annotated[int, Doc("its length", "cycles")]
    wavelet_hops: Annotated[int, Doc("links that wavelets went over", "hops")]
    moves: Annotated[int, Doc("moves in the trace's log")]


@dataclass(frozen=True, kw_only=True)
class RunResult(Result):
    """Generated tokens, the cycles that they took, and traffic.

    The fields of the first user's answer are also at the top where there is one user. What concerns generated tokens
    behind the first is absent where there is none.
    """

    tokens: Annotated[tuple[int, ...] | None, Doc("generated token ids; of a single user")] = None
    prompt_tokens: Annotated[int | None, Doc("tokens of the prompt; of a single user")] = None
    prompt_ids: Annotated[tuple[int, ...] | None, Doc("their ids; of a single user, of models without a tokenizer")] = (
        None
    )
    text: Annotated[str | None, Doc("prompt and generated text; of a single user, with a tokenizer")] = None
    prompt_logits_last: Annotated[
        tuple[float, ...] | None, Doc("logits after the prompt; of a single user, with `--logits`")
    ] = None
    batch: Annotated[int, Doc("users whose tokens are decoded together")]
    users: Annotated[tuple[AnswerResult, ...], Doc("the answer to each user")]
    model: Annotated[ModelResult, Doc("the model")]
    wafer: Annotated[WaferResult, Doc("a wafer as programs see it")]
    system: Annotated[SystemResult, Doc("wafers, mapping and stages")]
    sram: Annotated[SramResult, Doc("how full PEs are")]
    prefill: Annotated[PrefillResult, Doc("the prompts")]
    decode: Annotated[DecodeResult | None, Doc("a generated token")] = None
    verify: Annotated[VerifiedResult | None, Doc("passes that verify drafts; with `--verify-tokens`")] = None
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    fabric: Annotated[FabricResult, Doc("words over links")]
    experts: Annotated[ExpertLoadResult | None, Doc("load of experts; of models that have them")] = None
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None
    emulation: Annotated[EmulationResult, Doc("the run on this computer")]
    profile: Annotated[ProfileResult | None, Doc("where this computer's time went; with `--profile`")] = None
    trace: Annotated[str | None, Doc("path of the trace")] = None
    wavelets: Annotated[WaveletsResult | None, Doc("the last pass by wavelets; with `--wavelets`")] = None
    trace_error: Annotated[str | None, Doc("why the trace is not complete, or not there")] = None

    def plot(self) -> Figure:
        """Cycles by cause of the prompt and of a generated token."""
        token = {} if self.decode is None else {"a generated token": self.decode.cycles_by}
        return causes_figure({"prompt": self.prefill.cycles_by, **token}, f"Cycles of {self.model.name}")

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Answers, placement, SRAM, speed, traffic and the emulation."""
        tables = [*_answer_tables(self), placement_table(self.model, self.wafer, self.system)]
        tables.append(fullest_table(self.sram, self.batch, width=width))
        if self.defects is not None:
            tables.append(defects_table(self.defects))
        tables.append(_speed_table(self))
        if self.verify is not None:
            tables.append(verified_table(self.verify))
        if self.decode is not None:
            tables += [causes_table(self.decode.cycles_by, width=width), _traffic_table(self)]
        if self.experts is not None:
            tables.append(experts_table([layer.to_dict() for layer in self.experts.load]))
        if self.profile is not None:
            tables += profile_tables(self.profile, width=width)
        return (*tables, _emulation_table(self), *_logits_tables(self.users))


def print_run(result: RunResult, stream: TextIO) -> None:
    """Print the tables of a run; the text of a single user was printed as it grew."""
    console = console_on(stream)
    console.print()
    streamed = len(result.users) == 1 and result.users[0].text is not None
    print_tables(console, result.tables(width=console.width)[streamed:])


def _answer_tables(result: RunResult) -> list[Table]:
    """A table for each user; token ids where the model has no tokenizer."""
    if len(result.users) == 1 and result.users[0].text is None:
        rows = _id_rows(result.users[0])
        return [pair_table(rows, "Token ids", "the model has no tokenizer")]
    return [_answer_table(index, user) for index, user in enumerate(result.users, start=1)]


def _answer_table(index: int, user: AnswerResult) -> Table:
    prompt, generated = plural(user.prompt_tokens, "token"), plural(len(user.tokens), "token")
    rows = _id_rows(user) if user.text is None else [("text", printable_text(user.text))]
    return pair_table(rows, f"Prompt {index}", f"{prompt}, and {generated} generated")


def _id_rows(user: AnswerResult) -> list[tuple[str, str]]:
    prompt = [] if user.prompt_ids is None else [("prompt", _ids_text(user.prompt_ids))]
    return [*prompt, ("generated", _ids_text(user.tokens))]


def _ids_text(tokens: tuple[int, ...]) -> str:
    return ", ".join(map(str, tokens))


def _speed_table(result: RunResult) -> Table:
    """Tokens a second of the prompt and of generation."""
    prefill, decode = result.prefill, result.decode
    rate, cycles = f"{count(prefill.tokens_per_s)} tokens/s", f"{count(prefill.cycles)} cycles"
    rows = [("prompt", rate, cycles, seconds(prefill.s))]
    if decode is not None:
        rate, cycles = f"{count(decode.tokens_per_s_per_user)} tokens/s", f"{count(decode.cycles_per_token)} cycles"
        time = seconds(decode.cycles_per_token / result.wafer.clock_hz)
        rows.append(("generation", rate, f"{cycles} a token", time))
        if result.batch > 1:
            users = f"{plural(result.batch, 'user')}, a token each"
            rows.append(("of all users", f"{count(decode.tokens_per_s)} tokens/s", users, ""))
    keys = ("name", "rate", "cycles", "time")
    return Table(
        columns=tuple(number(key, formatter=str) for key in keys),
        rows=[dict(zip(keys, row, strict=True)) for row in rows],
        title="Speed of the emulated wafer",
    )


def _traffic_table(result: RunResult) -> Table:
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


def _emulation_table(result: RunResult) -> Table:
    """The speed of this computer, and the trace."""
    emulation, wavelets = result.emulation, result.wavelets
    tokens = sum(len(user.tokens) for user in result.users)
    speed = f"{count(emulation.tokens_per_s)} tokens/s on this computer"
    rows = [("speed", f"{speed}: {plural(tokens, 'token')}, {seconds(emulation.wall_s)} in all")]
    if result.profile is not None:
        rows.append(("flame graph", printable(f"{result.profile.output}: open it in speedscope")))
    if result.trace is not None:
        rows.append(("trace", printable(result.trace)))
        if wavelets is not None:
            text = f"{count(wavelets.moves)} moves of the last pass in the trace, {count(wavelets.cycles)} cycles"
            rows.append(("by wavelets", text))
        rows.append(("look inside", printable(f"wse inspect {shlex.quote(result.trace)}")))
    if result.trace_error is not None:
        rows.append(("no trace" if result.trace is None else "incomplete", printable(result.trace_error)))
    return pair_table(rows, "This emulation")


def _logits_tables(users: Sequence[AnswerResult]) -> list[Table]:
    """The largest logits after each prompt of which the logits were asked for."""
    tables = []
    for index, user in enumerate(users, start=1):
        logits = user.prompt_logits_last
        if logits is not None:
            largest = sorted(range(len(logits)), key=lambda token: -logits[token])[:MOST_LOGITS]
            rows = [(f"token {token}", f"{logits[token]:.4f}") for token in largest]
            title = "Logits after the prompt" + (f" {index}" if len(users) > 1 else "")
            tables.append(pair_table(rows, title, "the largest; --json has them all"))
    return tables
