"""RunRequest: the options of ``wse run``, and its arguments from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN, whole_number
from wse.studies.options import known_names
from wse.studies.options.engine import LOCAL, EngineName, RayAddress
from wse.studies.options.option import Option
from wse.studies.options.placement import PlacementRequest

if TYPE_CHECKING:
    from wse.backends.execute.sampling import Sampling


def read_ids(text: str) -> tuple[int, ...]:
    """The token ids of a text such as ``1,2,3``. Raises BadInput where a part is none."""
    parts = text.split(",") if text.strip() else []
    ids = []
    for part in parts:
        number = whole_number(part)
        if number is None:
            message = f"--prompt-ids: {part!r} is not a token id; give whole numbers with commas between, such as 1,2,3"
            raise BadInput(message)
        ids.append(number)
    return tuple(ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(PlacementRequest):
    """A run: the model and its placement, the prompts, the choice of tokens, and the files to write.

    ``prompt`` and ``prompt_ids`` hold the prompt of one user, or a sequence with a prompt for each of several users.
    """

    model: Annotated[
        str | Path,
        Option(
            doc="A model folder, or a name of `wse models`.",
            panel="Model",
            metavar="MODEL",
            known_values=known_names.models,
            positional=True,
        ),
    ] = "story"
    mesh: Annotated[
        str | None,
        Option(
            doc="Use a smaller mesh of the wafer's PEs. Default: the smallest square that holds the model, or the "
            "mesh of the listed regions.",
            panel="Wafer and mapping",
            metavar="ROWSxCOLS",
        ),
    ] = None
    prompt: Annotated[
        str | Sequence[str] | None,
        Option(
            doc="Text to continue. Several of them are answered together.",
            panel="Prompt",
            metavar="TEXT",
            repeats=True,
        ),
    ] = None
    prompt_ids: Annotated[
        Sequence[int] | Sequence[Sequence[int]] | None,
        Option(
            doc="Token ids to continue, used as they are; needs no tokenizer. As often as wanted.",
            panel="Prompt",
            metavar="1,2,3",
            repeats=True,
            read=read_ids,
        ),
    ] = None
    prompts: Annotated[
        str | Path | None,
        Option(
            doc="Texts to continue together: one a line, or a JSON list in a .json file.",
            panel="Prompt",
            metavar="FILE",
        ),
    ] = None
    new_tokens: Annotated[
        int | None,
        Option(
            doc="Stop after this number of tokens, if no end token came before. Default: 256, or what fits.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None

    weights: Annotated[
        str | None,
        Option(
            doc="Run the model's shape on random weights of that seed, the same on every mesh; files of weights are "
            "not needed.",
            panel="Model",
            metavar="random:SEED",
        ),
    ] = None
    chat: Annotated[bool, Option(doc="The prompt is a user's turn, in the model's chat template.", panel="Prompt")] = (
        False
    )
    system: Annotated[
        str | None,
        Option(doc="The system's turn of a chat, before the user's.", panel="Prompt", metavar="TEXT"),
    ] = None
    temperature: Annotated[
        float,
        Option(doc="0 takes the likeliest token on the wafer; above, the host draws.", panel="Sampling", metavar="T"),
    ] = 0.0
    top_k: Annotated[
        int, Option(doc="Draw among the K likeliest tokens; 0: among all.", panel="Sampling", metavar="K")
    ] = 0
    top_p: Annotated[
        float,
        Option(doc="Draw among the likeliest tokens that have probability P together.", panel="Sampling", metavar="P"),
    ] = 1.0
    min_p: Annotated[
        float,
        Option(doc="Draw among tokens at least P times as likely as the likeliest.", panel="Sampling", metavar="P"),
    ] = 0.0
    repetition_penalty: Annotated[
        float,
        Option(doc="Above 1: tokens of prompt and text so far become less likely.", panel="Sampling", metavar="R"),
    ] = 1.0
    seed: Annotated[
        int,
        Option(
            doc="Seed of what is drawn when the temperature is above 0, for each prompt anew.",
            panel="Sampling",
            metavar="N",
        ),
    ] = 0
    draft: Annotated[
        str | Path | None,
        Option(
            doc="Draft tokens ahead, which one pass of the model verifies: a smaller model of the same vocabulary, or "
            "ngram for what followed the text's last tokens before.",
            panel="Drafts",
            metavar="MODEL|ngram",
            known_values=known_names.drafts,
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Option(
            doc="Tokens that are drafted for each pass. Default: 4, or what fits.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Where drafts are made: beside the model on the same wafer, on another wafer, or on the host. "
            "Default: same; of ngram where the host draws tokens, host.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
    draft_mesh: Annotated[
        str | None,
        Option(
            doc="The mesh of PEs of a draft model. Default: the fastest part of as many as the model has.",
            panel="Drafts",
            metavar="ROWSxCOLS",
        ),
    ] = None
    verify_tokens: Annotated[
        int | None,
        Option(
            doc="Generate by passes over so many tokens of the user: the next one, and those of --draft ngram. "
            "1: a pass for each user's next token, so that several users can be streams on several wafers.",
            panel="Drafts",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    logits: Annotated[bool, Option(doc="Also report the logits after the prompt.", panel="Output")] = False
    allow_nonfinite: Annotated[
        bool, Option(doc="Run weights that hold infinities or what is no number.", panel="Model")
    ] = False
    trace: Annotated[
        str | Path | None,
        Option(doc="Where to write the trace.", panel="Trace", metavar="PATH|none", none="none"),
    ] = "wse-run.h5"
    trace_policy: Annotated[
        str,
        Option(
            doc="What a run does when its trace cannot be written any more.", panel="Trace", metavar="stop|continue"
        ),
    ] = "stop"
    record: Annotated[
        str | None,
        Option(
            doc="Keep what ops make in the trace; of all, or as layers.*.attention,head.",
            panel="Trace",
            metavar="activations[=OP,...]",
        ),
    ] = None
    record_pe: Annotated[
        str | None,
        Option(
            doc="Keep the bytes of a PE's buffers in the trace, pass by pass; of several with + between.",
            panel="Trace",
            metavar="[WAFER:]ROW,COL",
        ),
    ] = None
    checkpoint: Annotated[
        str | Path | None,
        Option(
            doc="Keep the state of the run in FILE now and then; where FILE is there, go on from it.",
            panel="Output",
            metavar="FILE",
        ),
    ] = None
    checkpoint_every: Annotated[
        float,
        Option(doc="Time between two writes of --checkpoint, such as 5s.", panel="Output", metavar="TIME", unit="s"),
    ] = 60.0
    profile: Annotated[
        bool,
        Option(doc="Also time this emulation itself: by kind of step, op and kernel.", panel="Output"),
    ] = False
    profile_output: Annotated[
        str | Path,
        Option(doc="With --profile: where to write its flame graph, for speedscope.", panel="Output", metavar="FILE"),
    ] = "wse-profile.json"
    engine: EngineName = LOCAL
    ray_address: RayAddress = None
    wavelets: Annotated[
        bool, Option(doc="Also carry out the last pass wavelet by wavelet, and trace every move.", panel="Trace")
    ] = False

    @property
    def sampling(self) -> Sampling:
        """The choice of the next token."""
        from wse.backends.execute.sampling import Sampling

        return Sampling(**{field.name: getattr(self, field.name) for field in fields(Sampling)})

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Return the options that fit this context, with fewer new tokens where ``new_tokens`` is too large."""
        if self.new_tokens is not None and prompt_tokens + self.new_tokens > context:
            return f"--context {context} --new-tokens {context - prompt_tokens}"
        return f"--context {context}"
