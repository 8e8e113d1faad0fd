"""Option groups of requests about serving: workload, users, GPUs, draft model, power and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from wse.errors import BadInput
from wse.hardware.quantity import TOKEN
from wse.option import Option, Panel
from wse.serving.goal import OBJECTIVES
from wse.studies.options import known_names

if TYPE_CHECKING:
    from wse.serving.named_workloads import NamedWorkload

LENGTH: Final = 1024
"""Default number of prompt tokens and of generated tokens, if the model's context can hold both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """Options for the requests of users: lengths of prompts and answers, and the pause between requests.

    Attributes:
        workload_name: Typical service, which sets the lengths of requests and, with --users, the
            pause between them; for serve-sim also the spread of lengths and shared prefixes. Other
            options override it. Sources: wse/data/workloads.toml.
        prompt_len: Tokens of each user's prompt, such as 4k (4,096). Default: that of --workload,
            or 1,024, or fewer if the model supports only fewer.
        new_tokens: Tokens generated for each user, such as 1k (1,024). Default: that of --workload,
            or 1,024, or fewer if the model supports only fewer.
        prefix_tokens: Tokens at the start of each prompt that are the same for all users, such as a
            system prompt. They are already in the KV cache, which stores them once, and are not
            processed again. On GPUs, only whole blocks of 16 are reused. Default: 0. For serve-sim,
            it is the mean number of shared tokens, and turns on --prefix-cache; default: the share
            of --workload, reused only with --prefix-cache. For serve, it only turns on
            --prefix-cache.
        think_time: With --users, mean pause from the end of an answer to the user's next request.
            Default: that of --workload, or 0.
    """

    PANEL: ClassVar[Panel] = "Prompt"

    workload_name: Annotated[
        str | None,
        Option(metavar="chat|summarize|rag|coding-agent|voice", known_values=known_names.workloads, flag="--workload"),
    ] = None
    prompt_len: Annotated[int | None, Option(unit=TOKEN)] = None
    new_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    prefix_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    think_time: Annotated[float | None, Option(unit="s")] = None

    @property
    def named_workload(self) -> NamedWorkload | None:
        """The workload that ``--workload`` names, or None.

        Raises:
            UnknownName: There is no such workload.
        """
        if self.workload_name is None:
            return None
        from wse.serving.named_workloads import load_workload  # reads numbers with pydantic, which is slow to import

        return load_workload(self.workload_name)

    def with_named_lengths(self) -> WorkloadOptions:
        """Return a copy in which missing prompt and answer lengths are those of the named workload.

        The lengths are the workload's mean token counts. Without a named workload, the options are
        returned unchanged.

        Raises:
            UnknownName: There is no such workload.
        """
        workload = self.named_workload
        if workload is None:
            return self
        return replace(
            self,
            prompt_len=workload.prompt_tokens if self.prompt_len is None else self.prompt_len,
            new_tokens=workload.new_tokens if self.new_tokens is None else self.new_tokens,
        )

    def shared_tokens(self, prompt_len: int) -> int:
        """Return how many tokens at the start of a prompt are requested to be shared; 0 by default.

        Args:
            prompt_len: Length of the prompt in tokens.

        Raises:
            BadInput: The number is negative, or no token of the prompt would have to be processed.
        """
        tokens = self.prefix_tokens or 0
        if not 0 <= tokens < prompt_len:
            raise BadInput(f"--prefix-tokens {tokens}: give 0 or more, and fewer than the {prompt_len:,} of the prompt")
        return tokens

    def think_s(self, users: int | None) -> float:
        """Return the mean pause in seconds from the end of an answer to the next request of the same user.

        Args:
            users: Number of users; None if it is not requested. The pause is then 0.

        Raises:
            UnknownName: There is no workload with the requested name.
        """
        if users is None:
            return 0.0
        if self.think_time is not None:
            return self.think_time
        return 0.0 if self.named_workload is None else self.named_workload.think_s

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
    """Options for serving: users, the objective of the layout, and how tokens select experts.

    Attributes:
        batch: Users whose tokens go through the stages in one pass. Default: 1; with --users or
            --objective, the number that serves them best.
        users: Users, each of whom sends the next request after the previous answer and a pause
            (--think-time). Default: the users of one pass (--batch); with --objective throughput or
            cost, the smallest number that reaches the highest throughput.
        objective: Choose the layout by the latency of a request, the tokens/s of all users, or the
            cost of a token. For the latency of one user, a layout on which a request takes up to
            0.4 % longer is preferred if the KV caches of more users fit in it. Default: latency;
            for serve-sim, throughput; for compare with users or targets, cost.
        routing: How tokens select experts: over all experts as evenly as possible (even), or at
            random with a popularity that falls as rank to the power of -S (zipf:S), or as recorded
            in a trace of `wse run` or a CSV file with the columns token,layer,experts.
    """

    PANEL: ClassVar[Panel] = "Serving"

    batch: Annotated[int | None, Option()] = None
    users: Annotated[int | None, Option()] = None
    objective: Annotated[str | None, Option(metavar="latency|throughput|cost", known_values=OBJECTIVES)] = None
    routing: Annotated[str, Option(metavar="even|zipf:S|FILE")] = "even"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Options for the number of GPUs, their serving software, and how they share a model.

    Attributes:
        gpus: Number of GPUs; auto: the smallest power of two whose memory can store the
            weights and that divides the attention heads (any with --parallelism data), else the
            smallest other such number. For compare, auto also tries its multiples by 2, 4, ..., up
            to the GPUs that NVLink connects.
        stack: Serving stack: a name of `wse gpus`, or a TOML file. Default: vllm.
        parallelism: Split all matrices over the GPUs (tensor, the default); or store each expert on
            one GPU (experts); or in addition compute each user's attention on one GPU (data).
    """

    PANEL: ClassVar[Panel] = "GPUs"

    gpus: Annotated[int | None, Option(none="auto")] = None
    stack: Annotated[str | Path | None, Option(metavar="NAME|FILE", known_values=known_names.stacks)] = None
    parallelism: Annotated[str | None, Option(metavar="tensor|experts|data")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOptions:
    """Options for the power and prices of wafers and GPUs. None means the bundled values.

    Attributes:
        economics: TOML file with powers and prices, in the format of wse/data/economics.toml. They
            replace the bundled ones; those that the file does not state are kept.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range. It overrides --economics.
    """

    PANEL: ClassVar[Panel] = "Output"

    economics: Annotated[str | Path | Mapping[str, Any] | None, Option(metavar="FILE")] = None
    price: Annotated[str | Mapping[str, float] | None, Option(metavar="NAME=USD,...")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModelOptions:
    """Options for the source of draft tokens (speculative decoding) and the place where it runs.

    The default source is a draft head, which is an extra layer of the model.

    Attributes:
        draft_model: Model that drafts tokens. Default: a draft head of one layer.
        draft_place: Run the draft model on free PEs of the model's wafers (same, the default), on
            additional wafers (wafer), or on the host.
    """

    PANEL: ClassVar[Panel] = "Drafts"

    draft_model: Annotated[str | Path | None, Option(metavar="MODEL", known_values=known_names.models)] = None
    draft_place: Annotated[str | None, Option(metavar="same|wafer|host")] = None
