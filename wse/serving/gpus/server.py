"""GpuServer: a model served on GPUs by a stack, with its pass times and KV capacity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from wse.errors import BadInput, DoesNotFit
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import state_bytes
from wse.program.routing import EVEN, RoutingDistribution
from wse.serving.gpus.pass_time import PassTime, pass_time
from wse.serving.gpus.roofline import Parallelism, Roofline, RooflineModel, Tokens
from wse.serving.gpus.spec import GpuSpec, StackSpec
from wse.serving.gpus.weights import PLAIN_BITS, LayerKind, WeightFormat, model_bytes, plain_bytes_per_value

BLOCK_TOKENS: Final = 16
"""Tokens per block of the KV cache, the default of vLLM (Kwon et al., SOSP 2023)."""


@dataclass(frozen=True, kw_only=True)
class GpuServer:
    """A model on GPUs, served by a serving stack (software such as vLLM).

    Attributes:
        spec: Specification of the model.
        weights: Number format of its weights.
        gpu: Capacities and rates of the GPU.
        stack: Costs of the serving stack.
        parallelism: How the model is distributed across GPUs.
        draft: A draft model or head on the same GPUs, or on one of them. Its weights and caches
            reduce the memory for the model's caches. None without speculative decoding.
        shares_tables: For a draft: whether it uses the model's embedding and output tables.
        routing: How tokens select experts.

    >>> from wse.serving.gpus.load import load_gpu, load_stack
    >>> from wse.serving.gpus.weights import FORMATS
    >>> from wse.models.load import load_model
    >>> spec, gpu = load_model("llama-3-8b").spec, load_gpu("h100")
    >>> stack = load_stack("vllm", gpu.generation)
    >>> server = GpuServer(spec=spec, weights=FORMATS["bfloat16"], gpu=gpu, stack=stack)
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
    routing: RoutingDistribution = EVEN

    def __post_init__(self) -> None:
        """Raise BadInput if the model needs more GPUs than the links of one machine connect."""
        gpus = self.parallelism.gpus
        if gpus > self.gpu.linked_gpus:
            msg = (
                f"--gpus {gpus}: {self.gpu.linked_gpus} {self.gpu.name} are linked; a model over several machines is "
                f"not modelled; give at most {self.gpu.linked_gpus}"
            )
            raise BadInput(msg)

    @cached_property
    def rooflines(self) -> RooflineModel:
        """Cost model for the minimum times of passes on these GPUs."""
        return RooflineModel(self.spec, self.weights, self.gpu, self.parallelism, self.routing)

    def roofline(self, groups: Sequence[Tokens]) -> Roofline:
        """Return the minimum times of a pass at the GPU vendor's stated rates.

        Args:
            groups: Groups of users in the pass. All users in a group have the same number of new tokens.
        """
        return self.rooflines.of(groups)

    def pass_time(self, groups: Sequence[Tokens]) -> PassTime:
        """Return the duration of a pass in seconds, broken down into terms such as reading weights.

        Args:
            groups: Groups of users in the pass. All users in a group have the same number of new tokens.
                For example, users who decode are one group, and a user whose prompt is processed is another.
        """
        return self.time_of(self.roofline(groups), self.stack)

    def time_of(self, roofline: Roofline, stack: StackSpec) -> PassTime:
        """Return the duration of a pass, broken down into terms, from its minimum times.

        Args:
            roofline: Minimum times of the pass at the vendor's stated rates.
            stack: Serving stack, whose efficiencies and fixed costs are applied.
        """
        return pass_time(roofline, self.spec, self.gpu, self.parallelism, stack)

    def decode_s(self, users: float, context_tokens: float) -> float:
        """Return the duration in seconds of a pass that decodes one token per user.

        Args:
            users: Number of users.
            context_tokens: Tokens in each user's KV cache.
        """
        return self.pass_time([Tokens(users=users, new=1, context=context_tokens)]).total_s

    def prefill_s(self, tokens: int, context_tokens: float = 0) -> float:
        """Return the duration in seconds of a pass that processes a prompt, or a chunk of one.

        Args:
            tokens: Number of tokens in the prompt or chunk.
            context_tokens: Number of tokens of the same prompt before the chunk.
        """
        return self.pass_time([Tokens(users=1, new=tokens, context=context_tokens)]).total_s

    def verify_s(self, users: float, tokens: int, context_tokens: float) -> float:
        """Return the duration in seconds of a pass that verifies each user's draft tokens.

        Args:
            users: Number of users.
            tokens: New tokens per user: the draft tokens and the preceding token.
            context_tokens: Tokens in each user's KV cache.
        """
        return self.pass_time([Tokens(users=users, new=tokens, context=context_tokens, outputs=tokens)]).total_s

    @cached_property
    def draft_head(self) -> GpuServer:
        """Server of a draft head, which proposes tokens that the model then verifies.

        Its cost is that of the model's last layer, as in MTP and EAGLE heads. It uses the embedding
        and output tables of the model.
        """
        return replace(self, spec=replace(self.spec, layers=self.spec.layers[-1:]), draft=None, shares_tables=True)

    def draft_s(self, users: float, tokens: int, context_tokens: float) -> float:
        """Return the duration in seconds of a draft pass on a server of a draft model or head.

        A draft pass proposes tokens that the main model then verifies. The work of the host is not
        included, because the host schedules the draft pass together with the verification pass.

        Args:
            users: Number of users.
            tokens: New tokens per user.
            context_tokens: Tokens in each user's KV cache.
        """
        time = self.pass_time([Tokens(users=users, new=tokens, context=context_tokens, outputs=tokens)])
        return time.total_s - time.host_s

    @cached_property
    def weight_bytes(self) -> float:
        """Total size of the model's weights on all GPUs, in bytes.

        With data-parallel attention, each GPU has a copy of all attention weights. A draft head
        that uses the embedding and output tables of the main model is counted without these tables.
        """
        extra = 0.0
        if self.parallelism.attention_by_data:
            attention = sum(kind.count * kind.attention for kind in self.rooflines.kinds)
            extra = (self.parallelism.gpus - 1) * attention * plain_bytes_per_value(self.spec, self.weights)
        return model_bytes(self.spec, self.weights, with_tables=not self.shares_tables) + extra

    @cached_property
    def draft_bytes(self) -> float:
        """Memory for the draft's weights in bytes, summed over all GPUs; 0 without a draft.

        A draft (a small model or extra layer that proposes tokens) may be stored on one GPU only.
        It then counts as if every GPU stored it, because KV caches are divided evenly over the GPUs
        and the fullest GPU limits their size, as in vLLM.
        """
        return 0.0 if self.draft is None else self._draft_copies * self.draft.weight_bytes

    @property
    def _draft_copies(self) -> float:
        """Number of copies of the weights of the draft model or head on all GPUs; 0 if none."""
        return 0.0 if self.draft is None else self.parallelism.gpus / self.draft.parallelism.gpus

    @property
    def kv_copy_bytes_per_token(self) -> float:
        """Bytes that one token needs in the model's KV cache, without duplicates on several GPUs.

        Sliding windows, which discard old tokens, are ignored.
        """
        return self.spec.cache_features_of_layers * self.weights.cache_bits / 8

    @cached_property
    def kv_bytes_per_token(self) -> float:
        """Bytes that one token needs in the model's KV cache, summed over all GPUs.

        If there are more GPUs than KV heads, several GPUs store the same heads. Sliding windows,
        which discard old tokens, are ignored.
        """
        kinds = [kind for kind in self.rooflines.kinds if not kind.linear]
        return sum(kind.count * self._entry_bytes(kind) for kind in kinds)

    def _entry_bytes(self, kind: LayerKind) -> float:
        """Return the bytes that one token needs in the KV cache of a layer, summed over all GPUs."""
        spec = self.spec.with_window_heads if kind.windowed else self.spec
        copies = self.parallelism.gpus / self.parallelism.cache_parts(spec.kv_head_count)
        return spec.cache_features * self.weights.cache_bits / 8 * copies

    @cached_property
    def kv_capacity_bytes(self) -> float:
        """Memory on all GPUs that the model and draft weights leave for KV caches, in bytes.

        Raises:
            DoesNotFit: The weights alone need more memory than there is. The message suggests a
                number of GPUs that suffices, if there is one.
        """
        room = self._usable_bytes - self.weight_bytes - self.draft_bytes
        if room <= 0:
            min_gpus = self.fewest_gpus()
            remedy = (
                f"give --gpus {min_gpus}" if min_gpus else "give fewer bits with --dtype, or a GPU with more memory"
            )
            weights = f"{self.weight_bytes / 1e9:,.1f} GB of weights{self._draft_text}"
            msg = (
                f"{self.spec.name} as {self.weights.name}: {weights}, "
                f"{self.parallelism.gpus} {self.gpu.name} hold {self._usable_bytes / 1e9:,.1f} GB; {remedy}"
            )
            raise DoesNotFit(msg)
        return room

    @cached_property
    def kv_capacity_tokens(self) -> int:
        """Total number of tokens, over all users, that fit in the KV caches.

        Sliding windows, which discard old tokens, are ignored.

        Raises:
            DoesNotFit: The weights alone need more memory than there is.
        """
        return int(self.kv_capacity_bytes / self._kv_bytes_per_token_with_draft)

    def kv_room_tokens(self, context_tokens: int) -> int:
        """Return the memory that one user's KV caches need, as a number of tokens.

        The unit is that of `kv_capacity_tokens`: the memory of one token in all layers. The cache
        of the draft model or head is included. Caches are allocated in blocks of `BLOCK_TOKENS`,
        and a layer with a sliding window stores only the tokens in the window. Without windows, the
        result is the user's number of tokens, rounded up to whole blocks.

        Args:
            context_tokens: Number of tokens of the user.
        """
        user_bytes = self.user_cache_bytes(context_tokens)
        if self.draft is not None:
            user_bytes += self._draft_copies * self.draft.user_cache_bytes(context_tokens)
        return math.ceil(round(user_bytes / self._kv_bytes_per_token_with_draft, 6))

    @property
    def max_sequences(self) -> int:
        """Maximum number of sequences in flight that the serving stack allows.

        With data-parallel attention, each GPU has its own scheduler with this limit.
        """
        return self.stack.max_sequences * (self.parallelism.gpus if self.parallelism.attention_by_data else 1)

    def users_that_fit(self, context_tokens: int, prefix_tokens: int = 0) -> int:
        """Return the maximum number of users in flight, limited by KV caches and the serving stack.

        Args:
            context_tokens: Number of tokens per user, including the prefix.
            prefix_tokens: Number of tokens at the start of every prompt whose caches all users
                share, a multiple of `BLOCK_TOKENS`.
        """
        room = self.kv_capacity_tokens - (self.kv_room_tokens(prefix_tokens) if prefix_tokens else 0)
        return min(self.max_sequences, max(0, room) // self.kv_room_tokens(context_tokens - prefix_tokens))

    def user_cache_bytes(self, context_tokens: int) -> float:
        """Return the total size of one user's KV caches and states on all GPUs, in bytes.

        Caches are allocated in blocks of `BLOCK_TOKENS`.

        Args:
            context_tokens: Number of tokens of the user.
        """
        kinds = [kind for kind in self.rooflines.kinds if not kind.linear]
        spans = [min(context_tokens, kind.span or context_tokens) for kind in kinds]
        cached_tokens = [math.ceil(span / BLOCK_TOKENS) * BLOCK_TOKENS for span in spans]
        entries = zip(kinds, cached_tokens, strict=True)
        cache_bytes = sum(kind.count * tokens * self._entry_bytes(kind) for kind, tokens in entries)
        return cache_bytes + self.bytes_per_state

    @property
    def bytes_per_state(self) -> int:
        """Bytes of one user's states in all layers with linear attention; 0 without such layers."""
        return state_bytes(self.spec, PLAIN_BITS // 8)

    @cached_property
    def _kv_bytes_per_token_with_draft(self) -> float:
        """Bytes that one token needs in the KV caches of the model and the draft, on all GPUs.

        Sliding windows are ignored.
        """
        draft_bytes_per_token = 0.0 if self.draft is None else self._draft_copies * self.draft.kv_bytes_per_token
        return self.kv_bytes_per_token + draft_bytes_per_token

    def fewest_gpus(self) -> int | None:
        """Return the smallest power-of-two number of GPUs that can hold all weights.

        If no power of two is suitable, the smallest other suitable number is returned. The result
        is None if there is none.
        """
        return min(self.suitable_gpus(), key=lambda gpus: (gpus.bit_count() > 1, gpus), default=None)

    def suitable_gpus(self) -> list[int]:
        """Return the numbers of GPUs that can hold all weights and divide attention evenly, sorted.

        Tensor parallelism divides the attention heads evenly among the GPUs. Data-parallel attention
        allows every number of GPUs, up to the maximum that is linked.
        """
        heads = 0 if self.parallelism.attention_by_data else self.spec.head_count
        servers = [self._on(gpus) for gpus in range(1, self.gpu.linked_gpus + 1) if heads % gpus == 0]
        return [server.parallelism.gpus for server in servers if server.holds_weights]

    @property
    def holds_weights(self) -> bool:
        """Whether the memory of the GPUs can hold the weights of the model and of its draft."""
        return self._usable_bytes > self.weight_bytes + self.draft_bytes

    @property
    def _usable_bytes(self) -> float:
        """Memory of all GPUs that the serving stack leaves for weights and KV caches, in bytes."""
        return self.parallelism.gpus * (self.gpu.hbm_bytes * self.stack.memory_ratio - self.stack.workspace_bytes)

    def _on(self, gpus: int) -> GpuServer:
        """Return the same server with another number of GPUs; a draft on all GPUs stays on all.

        On a single GPU, a draft counts as one on all GPUs.
        """
        draft = self.draft
        if draft is not None and draft.parallelism.gpus == self.parallelism.gpus:
            draft = draft._on(gpus)
        return replace(self, parallelism=replace(self.parallelism, gpus=gpus), draft=draft)

    @property
    def _draft_text(self) -> str:
        """Error-message text about the memory that the draft needs; "" without a draft."""
        if self.draft is None:
            return ""
        place = "on each GPU" if self.draft.parallelism.gpus < self.parallelism.gpus else "in all"
        return f" and a draft of {self.draft.weight_bytes / 1e9:,.1f} GB {place}"
