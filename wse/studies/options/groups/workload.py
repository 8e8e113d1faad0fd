"""WorkloadOptions: request lengths. ServingOptions: users, and the objective of the layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from wse.hardware.quantity import TOKEN
from wse.serving.goal import OBJECTIVES
from wse.studies.options.option import Option

LENGTH: Final = 1024
"""Default number of prompt tokens and of generated tokens, if the model's context can hold both."""

Objective = Annotated[
    str | None,
    Option(
        doc="Choose the layout by the latency of a request, the tokens/s of all users, or the cost of a token. Of "
        "layouts whose latency differs by at most 0.4 %, the one with the most room for users is chosen. Default: "
        "latency; for serve-sim, throughput; for compare with users or targets, cost.",
        panel="Serving",
        metavar="latency|throughput|cost",
        known_values=OBJECTIVES,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Options for the lengths of requests in tokens."""

    prompt_len: Annotated[
        int | None,
        Option(
            doc="Tokens of each user's prompt, such as 4k (4,096). Default: 1,024, or fewer if the model supports only "
            "fewer.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None
    new_tokens: Annotated[
        int | None,
        Option(
            doc="Tokens generated for each user, such as 1k (1,024). Default: 1,024, or fewer if the model supports "
            "only fewer.",
            panel="Prompt",
            metavar="TOKENS",
            unit=TOKEN,
        ),
    ] = None

    def lengths(self, limit: int) -> tuple[int, int]:
        """Return the prompt-token and generated-token counts, with defaults filled in.

        A length that is not requested defaults to `LENGTH`, or less if the two lengths would
        otherwise exceed ``limit`` in total. Requested lengths are returned unchanged.

        Args:
            limit: Maximum number of tokens per sequence.
        """
        if self.prompt_len is not None and self.new_tokens is not None:
            return self.prompt_len, self.new_tokens
        if self.prompt_len is None and self.new_tokens is None:
            equal_length = max(1, min(LENGTH, limit // 2))
            return equal_length, equal_length
        rest = max(1, min(LENGTH, limit - (self.prompt_len or self.new_tokens or 0)))
        return self.prompt_len or rest, self.new_tokens or rest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Options for serving: users per pass, concurrent users, and the objective of the layout."""

    batch: Annotated[
        int | None,
        Option(
            doc="Users whose tokens go through the stages in one pass. Default: 1; with --users or --objective, the "
            "number that serves them best.",
            panel="Serving",
            metavar="N",
        ),
    ] = None
    users: Annotated[
        int | None,
        Option(
            doc="Concurrent users: requests in flight. Default: the users of one pass.",
            panel="Serving",
            metavar="N",
        ),
    ] = None
    objective: Objective = None
