"""RunRequest: the options of the command ``wse run``, grouped by topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN, whole_number
from wse.option import Option, Panel
from wse.studies.options import known_names
from wse.studies.options.engine import EngineChoice
from wse.studies.options.option import OptionsOf
from wse.studies.options.placement import PlacementRequest

if TYPE_CHECKING:
    from wse.backends.execute.host_tokens.sampling import Sampling


def read_ids(text: str) -> tuple[int, ...]:
    """Parse a comma-separated list of token ids such as "1,2,3".

    Raises:
        BadInput: An element of the list is not an integer.
    """
    parts = text.split(",") if text.strip() else []
    ids = []
    for part in parts:
        number = whole_number(part)
        if number is None:
            raise BadInput(
                f"--prompt-ids: {part!r} is not a token id; give whole numbers with commas between, such as 1,2,3"
            )
        ids.append(number)
    return tuple(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options that specify the prompts of a run and the number of tokens to generate.

    ``prompt`` and ``prompt_ids`` contain either a single user's prompt or a sequence with one
    prompt per user.

    Attributes:
        prompt: Text to continue. Several texts are answered together, one per user.
        prompt_ids: Token ids to continue, used unchanged; no tokenizer is needed. Several lists are
            answered together, one per user.
        prompts: File of prompts to continue together: one per line, or a JSON list in a .json file.
        new_tokens: Stop after this number of tokens, or earlier at an end token. Default: 256, or
            the most that fit.
        chat: Use the prompt as the user's message in the model's chat template.
        system: System message of a chat, before the user's message.
    """

    PANEL: ClassVar[Panel] = "Prompt"

    prompt: Annotated[str | Sequence[str] | None, Option(metavar="TEXT", repeats=True)] = None
    prompt_ids: Annotated[
        Sequence[int] | Sequence[Sequence[int]] | None, Option(metavar="1,2,3", repeats=True, read=read_ids)
    ] = None
    prompts: Annotated[str | Path | None, Option(metavar="FILE")] = None
    new_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    chat: Annotated[bool, Option()] = False
    system: Annotated[str | None, Option(metavar="TEXT")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """Sampling options: how the next token is selected from the logits.

    `wse.backends.execute.host_tokens.sampling.Sampling` documents the exact meaning of each option.

    Attributes:
        temperature: 0 selects the most likely token on the wafer; above 0, the host draws tokens at
            random.
        top_k: Draw among the K most likely tokens; 0: among all.
        top_p: Draw among the most likely tokens that have a total probability of P.
        min_p: Draw among tokens that are at least P times as likely as the most likely one.
        repetition_penalty: Above 1: tokens that occur in the prompt or the text so far become less
            likely.
        seed: Seed of random draws at a temperature above 0; each prompt starts with it anew.
    """

    PANEL: ClassVar[Panel] = "Sampling"

    temperature: Annotated[float, Option(metavar="T")] = 0.0
    top_k: Annotated[int, Option(metavar="K")] = 0
    top_p: Annotated[float, Option(metavar="P")] = 1.0
    min_p: Annotated[float, Option(metavar="P")] = 0.0
    repetition_penalty: Annotated[float, Option(metavar="R")] = 1.0
    seed: Annotated[int, Option()] = 0

    def rule(self) -> Sampling:
        """Convert the options to the sampling rule applied by the backend."""
        from wse.backends.execute.host_tokens.sampling import Sampling

        return Sampling(**{field.name: getattr(self, field.name) for field in fields(Sampling)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDraftOptions:
    """Options of a run for speculative decoding: where draft tokens come from, and their number.

    Attributes:
        draft: Propose draft tokens, which one pass of the model verifies. They come from a smaller
            model with the same vocabulary, or from ngram: what followed the last tokens earlier in
            the text. Not for models with linear attention.
        draft_tokens: Draft tokens per verification pass. Default: 4, or the most that fit.
        draft_place: Where drafts are made: next to the model on the same wafer, on another wafer,
            or on the host. Default: same; for ngram with tokens drawn by the host, host.
        draft_mesh: Mesh of PEs of a draft model. Default: the fastest part of a mesh as large as
            the model's.
        verify_tokens: Generate by verification passes over this number of tokens of a user: the
            next token, and draft tokens of --draft ngram. 1: a pass for each user's next token, so
            that several users can be streams on several wafers.
    """

    PANEL: ClassVar[Panel] = "Drafts"

    draft: Annotated[str | Path | None, Option(metavar="MODEL|ngram", known_values=known_names.drafts)] = None
    draft_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    draft_place: Annotated[str | None, Option(metavar="same|wafer|host")] = None
    draft_mesh: Annotated[str | None, Option(metavar="ROWSxCOLS")] = None
    verify_tokens: Annotated[int | None, Option(unit=TOKEN)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options for a run's trace file: its path, and what to store besides cycles and tokens.

    Attributes:
        trace: File for the trace.
        trace_policy: What to do if the trace cannot be written any more.
        record: Store the outputs of ops in the trace: of all ops, or of some, such as
            layers.*.attention,head.
        record_pe: Store the bytes of a PE's buffers in the trace after each pass; separate several
            PEs by +.
        wavelets: Also simulate the last pass wavelet by wavelet, and trace every move.
    """

    PANEL: ClassVar[Panel] = "Trace"

    trace: Annotated[str | Path | None, Option(metavar="PATH|none", none="none")] = "wse-run.h5"
    trace_policy: Annotated[str, Option(metavar="stop|continue")] = "stop"
    record: Annotated[str | None, Option(metavar="activations[=OP,...]")] = None
    record_pe: Annotated[str | None, Option(metavar="[WAFER:]ROW,COL")] = None
    wavelets: Annotated[bool, Option()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Options for the checkpoint file, from which an interrupted run can resume.

    Attributes:
        checkpoint: Save the state of the run in FILE periodically; if FILE exists, resume from it.
        checkpoint_every: Time between two writes of --checkpoint, such as 5s.
    """

    PANEL: ClassVar[Panel] = "Output"

    checkpoint: Annotated[str | Path | None, Option(metavar="FILE")] = None
    checkpoint_every: Annotated[float, Option(unit="s")] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Options for measuring how long the emulation itself takes on this computer.

    Attributes:
        profile: Also measure how long the emulation itself takes, by type of step, op and kernel.
        profile_output: With --profile: file for the flame graph, in the format of speedscope.
    """

    PANEL: ClassVar[Panel] = "Output"

    profile: Annotated[bool, Option()] = False
    profile_output: Annotated[str | Path, Option(metavar="FILE")] = "wse-profile.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(PlacementRequest):
    """All options of ``wse run``: model, placement, prompts, sampling, drafts and output files.

    Attributes:
        model: A Hugging Face model folder, a GGUF file, a name of `wse models`, or
            ORG/NAME[@REVISION] of a repository on the Hugging Face hub.
        weights: Use random weights with this seed, the same on every mesh; no files of weights are
            needed.
        logits: Also report the logits after the prompt.
        allow_nonfinite: Allow infinities and NaN in weights.
    """

    model: Annotated[
        str | Path, Option(panel="Model", metavar="MODEL", known_values=known_names.models, positional=True)
    ] = "story"
    inputs: Annotated[PromptOptions, OptionsOf()] = field(default_factory=PromptOptions)
    weights: Annotated[str | None, Option(panel="Model", metavar="random:SEED")] = None
    sampling: Annotated[SamplingOptions, OptionsOf()] = field(default_factory=SamplingOptions)
    drafts: Annotated[RunDraftOptions, OptionsOf()] = field(default_factory=RunDraftOptions)
    logits: Annotated[bool, Option(panel="Output")] = False
    allow_nonfinite: Annotated[bool, Option(panel="Model")] = False
    tracing: Annotated[TraceOptions, OptionsOf()] = field(default_factory=TraceOptions)
    checkpoints: Annotated[CheckpointOptions, OptionsOf()] = field(default_factory=CheckpointOptions)
    profiling: Annotated[ProfileOptions, OptionsOf()] = field(default_factory=ProfileOptions)
    engine_choice: Annotated[EngineChoice, OptionsOf()] = field(default_factory=EngineChoice)

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Return command-line options that request a shorter context, for an error message.

        Args:
            context: The context that would fit, in tokens.
            prompt_tokens: Number of tokens in the longest prompt. ``--new-tokens`` is reduced too
                if the prompt and the new tokens exceed the context.
        """
        if self.inputs.new_tokens is not None and prompt_tokens + self.inputs.new_tokens > context:
            return f"--context {context} --new-tokens {context - prompt_tokens}"
        return f"--context {context}"
