"""EstimateRequest: the options of ``wse estimate``, which are also the arguments of `wse.estimate`.

An estimate needs request lengths instead of actual prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from wse.hardware.quantity import TOKEN
from wse.option import Option
from wse.studies.options import known_names
from wse.studies.options.option import OptionsOf
from wse.studies.options.placement import PlacementRequest
from wse.studies.options.serving import (
    LENGTH,
    CostOptions,
    DraftModelOptions,
    GpuOptions,
    ServingOptions,
    WorkloadOptions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest(PlacementRequest):
    """Options of ``wse estimate``: a model, wafers or GPUs, and request lengths.

    None means that a default is used, which may depend on the model.

    Attributes:
        replicas: Number of identical machines that share the users; auto: the fewest that have room
            for their requests in flight in the roomiest layout.
        verify_tokens: Also time a verification pass over this number of new tokens of one user.
        draft: Also report the best drafts for this machine and batch, given their acceptance: the
            name of a model in acceptance.toml, typical, probabilities by position such as
            0.8,0.7,0.6, or a TOML file. On wafers, not for models with linear attention.
        gpu: Time the model on GPUs instead of wafers: a name of `wse gpus`, or a TOML file.
        capacity: Refuse a model that does not fit, or time it and report what is missing.
        network: TOML file with times of network and service between user and machine, in the format
            of wse/data/network.toml. They replace the bundled ones; those that the file does not
            state are kept.
        sensitivity: Also report the effect of a slower hop, more SRAM, a faster link, and the code
            of research kernels.
        uncertainty: Also report how much each uncertain constant contributes to the ranges of TPOT
            and TTFT.
        most_users: Also search for the layout with the most room, and report how many users' KV
            caches fit in it.
        trace: Write a trace of the estimate, for `wse inspect`.
    """

    workload: Annotated[WorkloadOptions, OptionsOf()] = field(default_factory=WorkloadOptions)
    serving: Annotated[ServingOptions, OptionsOf()] = field(default_factory=ServingOptions)
    replicas: Annotated[int | None, Option(panel="Serving", none="auto")] = 1
    verify_tokens: Annotated[int | None, Option(panel="Prompt", unit=TOKEN)] = None
    draft: Annotated[
        str | None, Option(panel="Drafts", metavar="NAME|PROBABILITIES|FILE", known_values=known_names.acceptances)
    ] = None
    drafts: Annotated[DraftModelOptions, OptionsOf()] = field(default_factory=DraftModelOptions)
    gpu: Annotated[str | Path | None, Option(panel="GPUs", metavar="NAME|FILE", known_values=known_names.gpus)] = None
    gpu_serving: Annotated[GpuOptions, OptionsOf()] = field(default_factory=GpuOptions)
    capacity: Annotated[str, Option(panel="Wafer and mapping", metavar="refuse|report")] = "refuse"
    costs: Annotated[CostOptions, OptionsOf()] = field(default_factory=CostOptions)
    network: Annotated[str | Path | None, Option(panel="Output", metavar="FILE")] = None
    sensitivity: Annotated[bool, Option(panel="Output")] = False
    uncertainty: Annotated[bool, Option(panel="Output")] = False
    most_users: Annotated[bool, Option(panel="Output")] = False
    trace: Annotated[str | Path | None, Option(panel="Trace", metavar="PATH|none", none="none")] = None

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Return options for a shorter context, such as ``--context 4096``, for error messages.

        Args:
            context: The context in tokens.
            prompt_tokens: Number of prompt tokens. If the requested new tokens do not fit after the
                prompt, the options also request fewer new tokens. If a length that is not
                requested becomes shorter, the text says so.
        """
        if self.workload.new_tokens is not None and prompt_tokens + self.workload.new_tokens > context:
            return f"--context {context} --new-tokens {context - prompt_tokens}"
        prompt_len, new_tokens = self.workload.lengths(context)
        is_shorter = prompt_len < prompt_tokens or (self.workload.new_tokens is None and new_tokens < LENGTH)
        return f"--context {context}" + f" (then {prompt_len:,} prompt and {new_tokens:,} new tokens)" * is_shorter

    @property
    def think_s(self) -> float:
        """Mean pause of a user between two requests in seconds; 0 without a number of users."""
        return self.workload.think_s(self.serving.users)

    def fewer_users_remedy(self, users: int) -> str:
        """Return a phrase that suggests fewer users, such as ``--batch 4``, for error messages."""
        return f"--batch {users}"
