"""GpuServer: a model that a stack serves on GPUs: seconds of its passes and the KV cache that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from wse.errors import BadInput, DoesNotFit
from wse.models.spec import ModelSpec
from wse.serving.gpus.pass_time import PassTime, pass_time
from wse.serving.gpus.roofline import Parallelism, Roofline, RooflineModel, Tokens
from wse.serving.gpus.spec import GpuSpec, StackSpec
from wse.serving.gpus.weights import WeightFormat, layers_bytes, model_bytes, plain_bytes_per_value

BLOCK_TOKENS: Final = 16
"""Tokens of a block of the cache, as by default in vLLM (Kwon et al., SOSP 2023)."""


@dataclass(frozen=True, kw_only=True)
class GpuServer:
    """A model on GPUs; tokens are counted, times are seconds.

    ``draft`` is what drafts for it on the same GPUs, or on one of them: its weights and caches take room beside the
    model's. A draft that ``shares_tables`` has the model's own embedding and output table.

    >>> from wse.serving.gpus.load import load_gpu, load_stack
    >>> from wse.serving.gpus.weights import FORMATS
    >>> from wse.models.load import load_model
    >>> spec, gpu = load_model("llama-3-8b").spec, load_gpu("h100")
    >>> server = GpuServer(spec=spec, weights=FORMATS["bfloat16"], gpu=gpu, stack=load_stack("vllm", gpu.generation))
    >>> 0.005 < server.decode_s(users=1, context_tokens=1024) < 0.008
    True
    """

    spec: ModelSpec
    weights: WeightFormat
    gpu: GpuSpec
    stack: StackSpec
    parallelism: Parallelism = field(default_factory=Parallelism)
    draft: GpuServer | None = None
    shares_tables: bool = False

    def __post_init__(self) -> None:
        """Refuse more GPUs than their links join."""
        gpus = self.parallelism.gpus
        if gpus > self.gpu.linked_gpus:
            msg = (
                f"--gpus {gpus}: {self.gpu.linked_gpus} {self.gpu.name} are linked; a model over several machines is "
                f"not modelled; give at most {self.gpu.linked_gpus}"
            )
            raise BadInput(msg)

    @cached_property
    def rooflines(self) -> RooflineModel:
        """Rooflines of the model's passes on these GPUs."""
        return RooflineModel(self.spec, self.weights, self.gpu, self.parallelism)

    def roofline(self, groups: Sequence[Tokens]) -> Roofline:
        """Return the roofline of a pass over some groups of tokens."""
        return self.rooflines.of(groups)

    def pass_time(self, groups: Sequence[Tokens]) -> PassTime:
        """The time by term of a pass over some groups of tokens, such as decoded ones and a chunk of a prompt."""
        return self.time_of(self.roofline(groups), self.stack)

    def time_of(self, roofline: Roofline, stack: StackSpec) -> PassTime:
        """Return the time by term of a pass with a roofline, as a stack runs it."""
        return pass_time(roofline, self.spec, self.gpu, self.parallelism, stack)

    def decode_s(self, users: float, context_tokens: float) -> float:
        """Return a pass over one new token of each user, with ``context_tokens`` in the cache of each."""
        return self.pass_time([Tokens(users=users, new=1, context=context_tokens)]).total_s

    def prefill_s(self, tokens: int, context_tokens: float = 0) -> float:
        """Return a pass over a prompt's tokens, or over a chunk of it behind ``context_tokens`` of its own."""
        return self.pass_time([Tokens(users=1, new=tokens, context=context_tokens)]).total_s

    def verify_s(self, users: float, tokens: int, context_tokens: float) -> float:
        """Return a pass over ``tokens`` new ones of each user, such as drafted tokens and the one before them."""
        return self.pass_time([Tokens(users=users, new=tokens, context=context_tokens, outputs=tokens)]).total_s

    @cached_property
    def draft_head(self) -> GpuServer:
        """A head that drafts for the model: its last layer with its output table, as MTP and EAGLE heads are."""
        return replace(self, spec=replace(self.spec, layers=self.spec.layers[-1:]), draft=None, shares_tables=True)

    def draft_s(self, users: float, tokens: int, context_tokens: float) -> float:
        """A pass of a draft over ``tokens`` new ones of each user, which the host schedules with the pass it is for."""
        time = self.pass_time([Tokens(users=users, new=tokens, context=context_tokens, outputs=tokens)])
        return time.total_s - time.host_s

    @cached_property
    def weight_bytes(self) -> float:
        """Bytes of its weights on all GPUs; with attention by data each has all weights of attention."""
        extra = 0.0
        if self.parallelism.attention_by_data:
            attention = sum(kind.count * kind.attention for kind in self.rooflines.kinds)
            extra = (self.parallelism.gpus - 1) * attention * plain_bytes_per_value(self.spec, self.weights)
        return (layers_bytes if self.shares_tables else model_bytes)(self.spec, self.weights) + extra

    @cached_property
    def draft_bytes(self) -> float:
        """Bytes of memory that the draft's weights take of all GPUs, 0 without one.

        Where it is on one GPU the others keep as much free: caches are cut evenly, and the fullest GPU has the least
        room for them, as vLLM takes the least of its workers' blocks.
        """
        return 0.0 if self.draft is None else self._draft_copies * self.draft.weight_bytes

    @property
    def _draft_copies(self) -> float:
        """The number of copies of the draft on all GPUs, 0 without a draft."""
        return 0.0 if self.draft is None else self.parallelism.gpus / self.draft.parallelism.gpus

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """Bytes that a token adds to the model's caches of all GPUs together, where no window forgets it."""
        whole = self.parallelism.attention_by_data
        copies = 1 if whole else self.parallelism.gpus / min(self.parallelism.gpus, self.spec.kv_head_count)
        return self.spec.layer_count * self.spec.cache_features * self.weights.cache_bits / 8 * copies

    @cached_property
    def kv_capacity_bytes(self) -> float:
        """Bytes that the stack leaves for the cache on all GPUs together, beside the weights and those of the draft.

        Raises:
            DoesNotFit: the weights alone take more; with how many GPUs store them.
        """
        usable = self.gpu.hbm_bytes * self.stack.memory_ratio - self.stack.workspace_bytes
        room = usable * self.parallelism.gpus - self.weight_bytes - self.draft_bytes
        if room <= 0:
            fewest = self.fewest_gpus()
            remedy = f"give --gpus {fewest}" if fewest else "give fewer bits with --dtype, or a GPU with more memory"
            msg = (
                f"{self.spec.name} as {self.weights.name}: {self.weight_bytes / 1e9:,.1f} GB of weights{self._beside}, "
                f"{self.parallelism.gpus} {self.gpu.name} hold {usable * self.parallelism.gpus / 1e9:,.1f} GB; {remedy}"
            )
            raise DoesNotFit(msg)
        return room

    @cached_property
    def kv_capacity_tokens(self) -> int:
        """Tokens of all users that fit the cache, where no window forgets any; errors as of `kv_capacity_bytes`."""
        return int(self.kv_capacity_bytes / self._kv_bytes_per_token_with_draft)

    def kv_room_tokens(self, context_tokens: int) -> int:
        """Return the part of `kv_capacity_tokens` that the cache of a user of so many tokens needs, draft included.

        A layer with a window keeps no more tokens than that, and caches have whole blocks of `BLOCK_TOKENS`. A user
        whose caches no window shortens needs its own number of tokens, in whole blocks.
        """
        of_draft = 0.0 if self.draft is None else self._draft_copies * self.draft.user_cache_bytes(context_tokens)
        user_bytes = self.user_cache_bytes(context_tokens) + of_draft
        return math.ceil(round(user_bytes / self._kv_bytes_per_token_with_draft, 6))

    @property
    def max_sequences(self) -> int:
        """Sequences that the stack has in flight at most; with attention by data each GPU has its own scheduler."""
        return self.stack.max_sequences * (self.parallelism.gpus if self.parallelism.attention_by_data else 1)

    def users_that_fit(self, context_tokens: int) -> int:
        """Users of ``context_tokens`` each that are in flight at most: caches have room for them, the stack slots."""
        return min(self.max_sequences, self.kv_capacity_tokens // self.kv_room_tokens(context_tokens))

    def user_cache_bytes(self, context_tokens: int) -> float:
        """Bytes that the model's caches of a user of so many tokens take on all GPUs together, in whole blocks."""
        entry = self.kv_bytes_per_token / self.spec.layer_count
        spans = ((kind.count, min(context_tokens, kind.span or context_tokens)) for kind in self.rooflines.kinds)
        return entry * sum(count * math.ceil(span / BLOCK_TOKENS) * BLOCK_TOKENS for count, span in spans)

    @cached_property
    def _kv_bytes_per_token_with_draft(self) -> float:
        """Bytes that a token adds to the caches of the model and its draft, where no window forgets it."""
        of_draft = 0.0 if self.draft is None else self._draft_copies * self.draft.kv_bytes_per_token
        return self.kv_bytes_per_token + of_draft

    def fewest_gpus(self) -> int | None:
        """Return the fewest GPUs, as a power of two, whose memory holds the weights; None where those linked do not.

        Each is to have room for the whole draft, wherever it is.
        """
        usable = self.gpu.hbm_bytes * self.stack.memory_ratio - self.stack.workspace_bytes
        usable -= 0.0 if self.draft is None else self.draft.weight_bytes
        counts = (2**power for power in range(self.gpu.linked_gpus.bit_length()))
        return next((n for n in counts if n * usable > self.weight_bytes), None)

    @property
    def _beside(self) -> str:
        """The words of a refusal on the room of the draft."""
        if self.draft is None:
            return ""
        where = "on each GPU" if self.draft.parallelism.gpus < self.parallelism.gpus else "in all"
        return f" beside a draft, {self.draft.weight_bytes / 1e9:,.1f} GB {where}"
