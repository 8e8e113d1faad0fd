"""WorkloadOptions: the lengths of requests. ServingOptions: users, and what the layout is chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.hardware.quantity import TOKEN
from wse.serving.goal import OBJECTIVES
from wse.studies.options.option import Option

LENGTH: Final = 1024
"""Tokens of a prompt, and generated ones, where neither was requested and the model was made for both."""

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
class WorkloadOptions:
    """The lengths of requests."""

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

    def lengths(self, limit: int) -> tuple[int, int]:
        """Return the tokens of a prompt and generated ones.

        Those not requested are LENGTH, or as many as ``limit`` leaves.
        """
        if self.prompt_len is not None and self.new_tokens is not None:
            return self.prompt_len, self.new_tokens
        if self.prompt_len is None and self.new_tokens is None:
            each = max(1, min(LENGTH, limit // 2))
            return each, each
        rest = max(1, min(LENGTH, limit - (self.prompt_len or self.new_tokens or 0)))
        return self.prompt_len or rest, self.new_tokens or rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Options of a service: users of a pass, users of the service, and the objective of the layout."""

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
    objective: Objective = None
