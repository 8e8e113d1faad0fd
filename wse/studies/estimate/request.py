"""EstimateRequest: the options of ``wse estimate``, and its arguments from Python; lengths in place of prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from wse.hardware.quantity import TOKEN
from wse.serving.goal import OBJECTIVES
from wse.studies.options import known_names
from wse.studies.options.option import Option
from wse.studies.options.placement import PlacementRequest

LENGTH: Final = 1024
"""Tokens of a prompt, and generated ones, where neither was asked for and the model was made for both."""

Objective = Annotated[
    str | None,
    Option(
        doc="Choose the layout with the shortest request, the most tokens/s of all users, or the cheapest token. "
        "Default: latency; of serve-sim throughput; of compare with users or targets cost.",
        panel="Serving",
        metavar="latency|throughput|cost",
        known_values=OBJECTIVES,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest(PlacementRequest):
    """A model on full-size wafers, to be timed; None where the default is to be found."""

    prompt_len: Annotated[
        int | None,
        Option(
            doc="Tokens of each user's prompt, such as 4k (4,096). Default: 1,024, or fewer where the model was made "
            "for fewer.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    new_tokens: Annotated[
        int | None,
        Option(
            doc="Tokens generated for each user, such as 1k (1,024). Default: 1,024, or fewer where the model was made "
            "for fewer.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    batch: Annotated[
        int | None,
        Option(
            doc="Users whose tokens go through the stages in one pass. Default: 1, or with --users or --objective the "
            "number that serves them best.",
            panel="Serving",
            metavar="N",
        ),
    ] = None
    users: Annotated[
        int | None,
        Option(
            doc="Users at a time: requests in flight. Default: those of one pass.",
            panel="Serving",
            metavar="N",
        ),
    ] = None
    replicas: Annotated[
        int | None,
        Option(
            doc="Equal machines that share the users; auto: the fewest that have room for them.",
            panel="Serving",
            metavar="N|auto",
            none="auto",
        ),
    ] = 1
    objective: Objective = None
    verify_tokens: Annotated[
        int | None,
        Option(
            doc="Also a pass over so many new tokens of one user, as drafted ones are verified by.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    draft: Annotated[
        str | None,
        Option(
            doc="Also the best drafts for this machine and batch, by how often they are accepted: a measured model of "
            "acceptance.toml or typical, shares such as 0.8,0.7,0.6 by position, or a TOML file.",
            panel="Drafts",
            metavar="NAME|SHARES|FILE",
            known_values=known_names.acceptances,
        ),
    ] = None
    draft_model: Annotated[
        str | Path | None,
        Option(
            doc="The model that drafts. Default: a head of one layer of the model.",
            panel="Drafts",
            metavar="MODEL",
            known_values=known_names.models,
        ),
    ] = None
    draft_place: Annotated[
        str | None,
        Option(
            doc="Where the draft model runs: on PEs that the model leaves free, on wafers of its own, which are "
            "added to those of the model, or on the host. Default: same.",
            panel="Drafts",
            metavar="same|wafer|host",
        ),
    ] = None
    gpu: Annotated[
        str | Path | None,
        Option(
            doc="Time the model on GPUs in place of wafers: a name of `wse gpus`, or a TOML file.",
            panel="GPUs",
            metavar="NAME|FILE",
            known_values=known_names.gpus,
        ),
    ] = None
    gpus: Annotated[
        int | None,
        Option(
            doc="How many GPUs; auto: the fewest, as a power of two, that hold the model.",
            panel="GPUs",
            metavar="N|auto",
            none="auto",
        ),
    ] = None
    stack: Annotated[
        str | Path | None,
        Option(
            doc="The serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.",
            panel="GPUs",
            metavar="NAME|FILE",
            known_values=known_names.stacks,
        ),
    ] = None
    parallelism: Annotated[
        str | None,
        Option(
            doc="Cut all matrices over the GPUs (default); or have experts whole on a GPU each; or besides each user's "
            "attention on one GPU.",
            panel="GPUs",
            metavar="tensor|experts|data",
        ),
    ] = None
    capacity: Annotated[
        str,
        Option(
            doc="Whether a model that does not fit is timed all the same.",
            panel="Wafer and mapping",
            metavar="refuse|report",
        ),
    ] = "refuse"
    economics: Annotated[
        str | Path | Mapping[str, Any] | None,
        Option(
            doc="Power and prices in a TOML file, in place of those of wse/data/economics.toml.",
            panel="Output",
            metavar="FILE",
        ),
    ] = None
    price: Annotated[
        str | Mapping[str, float] | None,
        Option(
            doc="USD per hour of one machine: wafer, or a name of `wse wafers` or `wse gpus`. Replaces the assumed "
            "price, its range, and that of --economics.",
            panel="Output",
            metavar="NAME=USD,...",
        ),
    ] = None
    network: Annotated[
        str | Path | None,
        Option(
            doc="Network and service between user and machine in a TOML file, in place of wse/data/network.toml.",
            panel="Output",
            metavar="FILE",
        ),
    ] = None
    sensitivity: Annotated[
        bool,
        Option(
            doc="Also what a slower hop, more SRAM, a faster link, or wafers that cut no layer would change.",
            panel="Output",
        ),
    ] = False
    trace: Annotated[
        str | Path | None,
        Option(
            doc="Write a trace of it, to look inside with `wse inspect`.",
            panel="Trace",
            metavar="PATH|none",
            none="none",
        ),
    ] = None

    def lengths(self, limit: int) -> tuple[int, int]:
        """Tokens of a prompt and generated ones; those not asked for are LENGTH, or as many as ``limit`` leaves."""
        if self.prompt_len is not None and self.new_tokens is not None:
            return self.prompt_len, self.new_tokens
        if self.prompt_len is None and self.new_tokens is None:
            each = max(1, min(LENGTH, limit // 2))
            return each, each
        rest = max(1, min(LENGTH, limit - (self.prompt_len or self.new_tokens or 0)))
        return self.prompt_len or rest, self.new_tokens or rest

    def shorter_context_remedy(self, context: int, prompt_tokens: int) -> str:
        """Fewer new tokens too, where as many were asked for."""
        if self.new_tokens is not None and prompt_tokens + self.new_tokens > context:
            return f"--context {context} --new-tokens {context - prompt_tokens}"
        return f"--context {context}"

    def fewer_users_remedy(self, users: int) -> str:
        """A smaller batch."""
        return f"--batch {users}"
