"""Compile options: the user's request for a compilation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wse.compiler.strategies import strategy
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS, DTYPES, ELEMENT_BYTES
from wse.program.routing import EVEN, RoutingDistribution
from wse_mappings.cuts.expert_groups import DISTRIBUTED
from wse_mappings.patterns.k_tree import FEWEST_RELAYS
from wse_mappings.regions.demand import ListedRegion
from wse_mappings.result_cache import ResultCache

MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM = "mesh-gemm", "mesh-gemm-own-weights", "thin-gemm"
PREFILL_PRODUCTS = (MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM)
"""The matrix products that prefill may use.

``mesh-gemm`` is MeshGEMM on the weight tiles of decode. ``mesh-gemm-own-weights`` is MeshGEMM on a
second copy of the weights. ``thin-gemm`` multiplies a chunk of tokens like decode, using the decode
tiles unchanged.
"""

BASELINE, OPTIMIZED = "baseline", "optimized"
SCHEDULES = (BASELINE, OPTIMIZED)
"""Layer schedules: the published research decode, or a version rewritten to take fewer cycles."""

NORM_SCALES = "norm-scales"
"""The rewrite that applies the scale of a norm after the products that follow the norm.

With a LayerNorm, PEs store additional tiles for this rewrite.
"""

ROUTER_SCORES = "router-scores"
"""The rewrite that computes router scores on the columns that have the outputs.

With this rewrite, each column stores only the score corrections of its own outputs.
"""

ROUTER_COPIES = "router-copies"
"""The rewrite that computes all outputs of a router on each of several column segments.

Its setting is the maximum number of outputs per column.
"""

SENT_CHOICE = "sent-choice"
"""The rewrite that sends the selected experts from one part of a split layer to the others."""

FITTED_TREES = "fitted-trees"
"""The rewrite that fits the number of groups of an all-reduce to its line and message length."""

WIDE_UNPACKING = "wide-unpacking"
"""The rewrite that unpacks more quantised weights at a time if PEs have enough free memory."""

REFUSE, REPORT = "refuse", "report"
"""Values of ``Options.capacity``: what to do if a Program needs more SRAM than is available."""

MODEL, LAYERS, PRODUCT = "model", "layers", "product"
"""Scopes of a compilation: a whole model, its layers only, or one matrix product."""

PREFILL, DECODE, VERIFY = "prefill", "decode", "verify"
"""Names of the phases of a Program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A compile request: the user's choices for a compilation.

    The scopes ``layers`` and ``product`` are for comparison with published measurements. Programs
    with these scopes are only timed, never executed. With ``layers``, hidden vectors are already in
    place, and the cache contains ``context`` entries and does not grow. There is no embedding, head
    or transfer between stages, and the features of a head are divided evenly, which may separate
    rotary pairs. With ``product``, the only op multiplies ``prompt_tokens`` vectors (prefill) or
    one vector (decode) of the hidden size by a matrix as wide as the feed-forward block.

    Attributes:
        mapping: Name of the mapping strategy, or ``FILE.py:NAME``.
        wafers: Number of wafers.
        dtype: Storage type of the weights of linear layers: an element type or a coding.
        accumulate: Element type of sums.
        context: Capacity of each user's KV cache, in tokens.
        prompt_tokens: Length of each user's prompt. Prompts are processed sequentially. After that,
            each decode pass generates one token per user.
        prefix_tokens: Tokens at the start of every prompt that are already in the KV cache and are
            not processed, fewer than the shortest prompt has. All users share them. A Program with
            such tokens can be timed, but not executed.
        region: Rows and columns of every region; None lets the mapping decide.
        sampling: ``wafer`` selects the most likely token on PEs. ``host`` sends the logits to the
            host, which returns an id.
        logits_out: Additional logits to send to the host: ``none``, only the logits after the
            ``prompt``, or ``all``.
        capacity: ``refuse`` raises an error if a PE needs more than its SRAM. ``report`` assigns
            addresses beyond the end of SRAM instead (``Program.fits`` is then False). Such a
            Program is only timed, never executed.
        scope: ``model``, ``layers`` or ``product``, as described above.
        phases: Phases to compile, in addition to ``verify``.
        groups: Number of groups of a line in the all-reduces of decode. `FEWEST_RELAYS` selects the
            number with the fewest relays. `EQUAL_GROUPS` selects equal groups with about as many
            PEs per group as there are groups, as in the released configurations of WaferLLM (OSDI
            2025).
        store_and_forward: Whether PEs receive whole dist-GEMM-T row sums before forwarding them, as
            in the released kernels. By default, the sums are streamed.
        prefill: Matrix product used in prefill, one of ``PREFILL_PRODUCTS``; None lets the compiler
            choose one that stores the weights only once.
        activations: Element type of activations, KV cache, tables and gains; None for the type of
            the weights.
        experts: Placement of experts: ``distributed`` over all columns of a region, on
            ``dedicated`` columns, on a number of column groups, or ``grouped``, which lets the
            compiler choose a number of groups with little padding. ``auto`` is ``distributed``
            unless a search finds that ``grouped`` is faster or that the model does not fit.
        schedule: ``baseline``, ``optimized``, or a comma-separated list of rewrites.
        all_reduce: Name of the pattern for sums over lines that all PEs need; empty for K-trees.
        verify_tokens: Number of new tokens of one user per verification pass, such as draft tokens;
            0 compiles no such pass.
        verify_ids: Where a verification pass reads its token ids. ``wafer`` reads them from PEs,
            where a draft head would leave them. ``host`` receives them from the host, which can
            react to data that it has received, such as the logits of the previous pass. They also
            come from the host if ``sampling`` is ``host``.
        cache_tokens: Total number of tokens in KV caches for which wafers are divided into regions,
            if it exceeds the tokens of one pass. A search accepts only layouts with room for them.
            The Program itself stores the caches of one pass.
        listed: All regions, if a mapping file lists them.
        listed_transposed: Whether the listed regions are on the transposed mesh.
        mapping_file: The mapping file that lists the regions; empty if there is none.
        routing: How tokens are assumed to select experts when the Program is timed.
        placed_selections: Recorded selections of experts, according to which experts are placed on
            groups of columns; `EVEN` places them by index.
        cache: Results shared by all compilations for the request. Modified copies of the request
            also share them.
    """

    mapping: str
    wafers: int
    dtype: str
    accumulate: str
    context: int
    prompt_tokens: tuple[int, ...]
    prefix_tokens: int = 0
    region: tuple[int, int] | None = None
    sampling: str = "wafer"
    logits_out: str = "none"
    capacity: str = REFUSE
    scope: str = MODEL
    phases: tuple[str, ...] = (PREFILL, DECODE)
    groups: int = FEWEST_RELAYS
    store_and_forward: bool = False
    prefill: str | None = None
    activations: str | None = None
    experts: str = DISTRIBUTED
    schedule: str = BASELINE
    all_reduce: str = ""
    verify_tokens: int = 0
    verify_ids: str = "wafer"
    cache_tokens: int = 0
    listed: tuple[ListedRegion, ...] = ()
    listed_transposed: bool = False
    mapping_file: str = ""
    routing: RoutingDistribution = EVEN
    placed_selections: RoutingDistribution = EVEN
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)

    @property
    def mapping_name(self) -> str:
        """Name of the mapping in reports: the mapping file's name, or else the strategy's name."""
        return self.mapping_file or self.mapping

    @property
    def unread_tokens(self) -> tuple[int, ...]:
        """Number of tokens of each user's prompt that must be processed."""
        return tuple(tokens - self.prefix_tokens for tokens in self.prompt_tokens)

    @property
    def activation_type(self) -> str:
        """Element type of activations, KV cache, vocabulary tables and gains."""
        return self.activations or self.dtype

    def element_type(self, view: str) -> str:
        """Return the element type of a view, such as ``float32`` for the view ``f32``.

        A view specifies how a kernel interprets the bytes of a buffer.

        Args:
            view: One of `wse.program.isa.operands.VIEWS`.
        """
        return {"acc": self.accumulate, "f32": "float32", "raw": "uint8"}.get(view, self.activation_type)

    def element_bytes(self, view: str) -> int:
        """Return the number of bytes per element of a view (`element_type`)."""
        return ELEMENT_BYTES[self.element_type(view)]

    @property
    def planned_cache_tokens(self) -> int:
        """Number of KV-cache tokens for which a layout reserves memory, summed over all users.

        The size of a region depends on it, because a layer's memory includes its KV cache. It is
        ``cache_tokens``, but at least ``context`` tokens for each user.
        """
        return max(self.context * self.batch, self.cache_tokens)

    @property
    def planned_users(self) -> float:
        """Number of users whose full KV caches fit into the reserved memory; may be a fraction.

        Without a cache (a context of 0), it is the number of users of a pass.
        """
        return self.planned_cache_tokens / self.context if self.context else float(self.batch)

    def cache_tokens_of(self, users: int, tokens: int) -> int:
        """Return the total number of tokens in the KV caches of users; a shared prefix counts once.

        Args:
            users: Number of users.
            tokens: Number of tokens per user, including the shared prefix.
        """
        shared_tokens = min(self.prefix_tokens, tokens)
        return shared_tokens + users * (tokens - shared_tokens)

    @property
    def takes_drafts(self) -> bool:
        """True if the host sends the token ids that a verification pass processes."""
        return "host" in (self.sampling, self.verify_ids)

    @property
    def across_wafers(self) -> bool:
        """True if the mapping partitions every operation of the model across several wafers."""
        return self.wafers > 1 and strategy(self.mapping).spans_wafers

    @property
    def batch(self) -> int:
        """Number of users whose next tokens a single decode pass generates."""
        return len(self.prompt_tokens)

    def with_one_chunk(self, tokens: int) -> Options:
        """Return the options with every prompt shortened to one chunk.

        Memory and the sizes of all-reduces depend on the size of chunks, but not on their number.

        Args:
            tokens: Maximum number of tokens per chunk.
        """
        return self.with_prompts((min(tokens, max(self.unread_tokens)),) * self.batch)

    def with_prompts(self, prompt_tokens: tuple[int, ...]) -> Options:
        """Return the options with prompts of other lengths, no tokens of which are in the KV cache.

        Args:
            prompt_tokens: Length of each user's prompt.
        """
        return replace(self, prompt_tokens=prompt_tokens, prefix_tokens=0)


def check_types(dtype: str, activations: str | None) -> None:
    """Check that the requested types of weights and activations exist and can be combined.

    Args:
        dtype: Type of the weights: an element type or a quantisation format.
        activations: Type of the activations; None for the type of the weights. It is required if
            the weights are quantised.

    Raises:
        UnknownName: One of the types is unknown, or ``activations`` is missing.
        BadInput: The types differ although the weights are not quantised.
    """
    if dtype not in (*DTYPES, *CODINGS):
        raise UnknownName("dtype", dtype, (*DTYPES, *CODINGS))
    if activations not in (DTYPES if dtype in CODINGS else (*DTYPES, None)):
        raise UnknownName("type of activations", str(activations), DTYPES)
    if dtype not in CODINGS and activations not in (None, dtype):
        raise BadInput(
            f"--activations {activations}: {dtype} weights are multiplied in their own type; leave it out, "
            f"or quantise with --dtype {' or '.join(CODINGS)}"
        )


def check_takes_drafts(spec: ModelSpec) -> None:
    """Check that a model supports speculative decoding, in which wrong draft tokens are discarded.

    Raises:
        BadInput: The model has linear attention.
    """
    if spec.linear is not None:
        raise BadInput(
            f"{spec.name}: drafts are not supported, because the state of linear attention cannot be restored after "
            "rejected tokens; leave out --draft and --verify-tokens"
        )


def unsupported_on_mesh(spec: ModelSpec, options: Options) -> str:
    """Return a phrase naming the property of a model or request that rules out prefill by MeshGEMM.

    MeshGEMM moves weights from PE to PE. Quantised weights are not supported because their scales
    and quantisation groups would have to move along with them.

    Returns:
        A phrase such as ``experts`` for use in error messages; empty if MeshGEMM can be used.
    """
    if spec.latent is not None:
        return "latent attention"
    if spec.linear is not None:
        return "linear attention"
    if any(layer.experts for layer in spec.layers):
        return "experts"
    if options.across_wafers:
        return f"--mapping {options.mapping} on several wafers"
    return f"{options.dtype} weights" if options.dtype in CODINGS else ""
