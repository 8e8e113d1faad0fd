"""RunResult: what a run answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from wse.inspect.expert_load import ExpertLoadResult
from wse.report.result import Doc, Result
from wse.report.table import Table
from wse.studies.results.defects import DefectsResult
from wse.studies.results.phases import DecodeResult, PrefillResult
from wse.studies.results.placement import ModelResult, SystemResult, WaferResult
from wse.studies.results.sram import SramResult
from wse.studies.results.traffic import CrossingResult, FabricResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class AnswerResult(Result):
    """The answer to one user."""

    tokens: Annotated[tuple[int, ...], Doc("generated token ids")]
    prompt_tokens: Annotated[int, Doc("tokens of the prompt")]
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
    crossing: Annotated[CrossingResult | None, Doc("bytes between wafers for a generated token")] = None
    fabric: Annotated[FabricResult, Doc("words over links")]
    experts: Annotated[ExpertLoadResult | None, Doc("load of experts; of models that have them")] = None
    defects: Annotated[DefectsResult | None, Doc("what dead PEs and links cost; with `--defects`")] = None
    emulation: Annotated[EmulationResult, Doc("the run on this computer")]
    trace: Annotated[str | None, Doc("path of the trace")] = None
    wavelets: Annotated[WaveletsResult | None, Doc("the last pass by wavelets; with `--wavelets`")] = None
    trace_error: Annotated[str | None, Doc("why the trace is not complete, or not there")] = None

    def plot(self) -> Figure:
        """Cycles by cause of the prompt and of a generated token."""
        from wse.studies.results.cause_figure import causes_figure

        token = {} if self.decode is None else {"a generated token": self.decode.cycles_by}
        return causes_figure({"prompt": self.prefill.cycles_by, **token}, f"Cycles of {self.model.name}")

    def tables(self) -> tuple[Table, ...]:
        from wse.studies.run.tables import run_tables  # which are made of this class

        return run_tables(self)
