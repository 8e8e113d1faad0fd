"""RunRequest: the options of the command ``wse run`` and the arguments of `wse.run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from wse.studies.options import known_names
from wse.studies.options.engine import LOCAL, EngineName, RayAddress
from wse.studies.options.option import Option, OptionsOf
from wse.studies.options.placement import PlacementRequest
from wse.studies.run.options.drafts import RunDraftOptions
from wse.studies.run.options.outputs import CheckpointOptions, ProfileOptions, TraceOptions
from wse.studies.run.options.prompts import PromptOptions, SamplingOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(PlacementRequest):
    """All options of ``wse run``: model, placement, prompts, sampling, drafts and output files."""

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
    inputs: Annotated[PromptOptions, OptionsOf()] = field(default_factory=PromptOptions)
    weights: Annotated[
        str | None,
        Option(
            doc="Use random weights with this seed, the same on every mesh; no files of weights are needed.",
            panel="Model",
            metavar="random:SEED",
        ),
    ] = None
    sampling: Annotated[SamplingOptions, OptionsOf()] = field(default_factory=SamplingOptions)
    drafts: Annotated[RunDraftOptions, OptionsOf()] = field(default_factory=RunDraftOptions)
    logits: Annotated[bool, Option(doc="Also report the logits after the prompt.", panel="Output")] = False
    allow_nonfinite: Annotated[bool, Option(doc="Allow infinities and NaN in weights.", panel="Model")] = False
    tracing: Annotated[TraceOptions, OptionsOf()] = field(default_factory=TraceOptions)
    checkpoints: Annotated[CheckpointOptions, OptionsOf()] = field(default_factory=CheckpointOptions)
    profiling: Annotated[ProfileOptions, OptionsOf()] = field(default_factory=ProfileOptions)
    engine: EngineName = LOCAL
    ray_address: RayAddress = None

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
