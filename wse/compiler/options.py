"""Choices of a user about a compilation, and those that the compiler makes by trying."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from wse.compiler.strategies import strategy
from wse.errors import BadInput, UnknownName
from wse.models.spec import ModelSpec
from wse.number_formats import CODINGS, DTYPES
from wse_mappings.cuts.expert_groups import SPREAD
from wse_mappings.patterns.k_tree import FEWEST_RELAYS
from wse_mappings.result_cache import ResultCache
from wse_mappings.strategies.strategy import ListedRegion

MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM = "mesh-gemm", "mesh-gemm-own-weights", "thin-gemm"
PREFILL_PRODUCTS = (MESH_GEMM, MESH_GEMM_OWN, THIN_GEMM)
"""The products that prefill may use: with the weight tiles of decode, with its own, with decode's where they stand."""

RELEASED, FUSED = "released", "fused"
SCHEDULES = (RELEASED, FUSED)
"""Recipes for the steps of layers: as the released research decode runs them, or rewritten to take fewer cycles."""

NORM_SCALES = "norm-scales"
"""The rewrite by which norms travel with the products that follow: of a LayerNorm, PEs store tiles for it."""

ROUTER_SCORES = "router-scores"
"""The rewrite by which a router's scores are taken on the columns that have its outputs: with it a column stores what
corrects its own alone."""

ROUTER_COPIES = "router-copies"
"""The rewrite by which stretches of columns have a router's outputs each: its setting is the most of a column."""

SENT_CHOICE = "sent-choice"
"""The rewrite by which the first part of a cut mixture sends the others what it chose."""

FITTED_TREES = "fitted-trees"
WIDE_UNPACKING = "wide-unpacking"
"""The rewrite by which sums are cut into groups that depend on their words."""

REFUSE, REPORT = "refuse", "report"
"""Values of ``capacity``: what happens to a Program that needs more SRAM than there is."""

MODEL, LAYERS, PRODUCT = "model", "layers", "product"
"""Scopes of a compilation: a whole model, a stack of layers alone, or one matrix product."""

PREFILL, DECODE, VERIFY = "prefill", "decode", "verify"
"""The phases of a Program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A compile request: mapping, wafers, types, lengths and everything else that the user decides.

    ``dtype`` is how the weights of linear layers are held. ``activations`` is the element type of everything else:
    activations, cache, tables, gains; None for that of the weights. ``accumulate`` is that of sums.
    ``prompt_tokens`` has the length of each user's prompt, which are compiled as prefill one after another; then all
    users' next tokens are decoded in one step. ``context`` is the capacity of a user's cache in tokens. ``region`` is
    the shape of every region; None lets the mapping choose. ``listed`` are the regions of the mapping file
    ``mapping_file``, which ``mapping`` takes as they are, ``listed_turned`` on the mesh with rows and columns in each
    other's place. ``sampling`` ``wafer`` takes the arg max on PEs, ``host``
    sends the logits out and takes the id back. ``logits_out`` sends them out besides: ``none``, those after the
    ``prompt``, or ``all``. ``verify_tokens`` compiles a pass over so many new tokens of one user, such as drafted ones;
    0 compiles none. With ``verify_ids`` ``wafer`` these stand on the PEs, where a draft head would leave them; with
    ``host``, and where the host draws ids, the pass takes them from the host, which answers to what it has got, such
    as the logits of the pass before. ``capacity`` ``refuse`` raises where a PE is asked to hold more than its SRAM;
    ``report`` lets addresses run on past its end, for a Program to be timed, never executed (``Program.fits`` tells).

    ``scope`` ``layers`` compiles what published measurements of layers time: hidden vectors are in place, the cache
    holds ``context`` entries and gains none, there is no embedding, head or hand-off, and the features of a head are
    cut evenly, rotary pairs or not. ``product`` compiles the product of ``prompt_tokens`` vectors (prefill) or one
    (decode) of the model's hidden size with a matrix as wide as its feed-forward, and nothing else. Such Programs are
    timed, never executed. ``phases`` are those that are compiled, besides passes over ``verify_tokens``. ``groups``
    says into how many groups the all-reduces of decode cut a line: a number, those with the fewest relays, or, as in
    the released configurations of WaferLLM (OSDI 2025), equal ones, about as many as PEs in one.
    ``store_and_forward``: PEs receive whole row sums of dist-GEMM-T before they send them on, as released, instead of
    streaming them. ``prefill`` is the product that prefill uses; None lets the compiler choose one that holds weights
    once. ``experts`` places a mixture: ``spread`` over all columns of a region, or on columns of their ``own``.
    ``schedule`` is the recipe for the steps of layers. ``all_reduce`` names the pattern of sums over lines whose result
    all PEs get; empty for K-trees.

    ``cache`` has results that compilations for the request share; a changed copy of the request has the same one.
    """

    mapping: str
    wafers: int
    dtype: str
    accumulate: str
    context: int
    prompt_tokens: tuple[int, ...]
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
    experts: str = SPREAD
    schedule: str = RELEASED
    all_reduce: str = ""
    verify_tokens: int = 0
    verify_ids: str = "wafer"
    listed: tuple[ListedRegion, ...] = ()
    listed_turned: bool = False
    mapping_file: str = ""
    cache: ResultCache = field(default_factory=ResultCache, compare=False, repr=False)

    @property
    def mapping_name(self) -> str:
        """The name of the mapping in reports: a strategy, or the file that lists its regions."""
        return self.mapping_file or self.mapping

    @property
    def activation_type(self) -> str:
        """Element type of activations, cache, tables and gains."""
        return self.activations or self.dtype

    def element_type(self, view: str) -> str:
        """Element type of a view of SRAM."""
        return {"acc": self.accumulate, "f32": "float32", "raw": "uint8"}.get(view, self.activation_type)

    @property
    def takes_drafts(self) -> bool:
        """True if the token ids of a pass over several tokens of one user come from the host."""
        return "host" in (self.sampling, self.verify_ids)

    @property
    def across_wafers(self) -> bool:
        """True if the mapping divides ops over several wafers."""
        return self.wafers > 1 and strategy(self.mapping).spans_wafers

    @property
    def batch(self) -> int:
        """Users whose tokens are decoded at once."""
        return len(self.prompt_tokens)


Rewrites = tuple[tuple[str, int], ...]
"""Names of rewrites, each with its setting; 1 where it has none."""


class TreeSize(NamedTuple):
    """The number of groups of all K-tree all-reduces with the same line and words in a phase.

    Attributes:
        phase: Name of the phase.
        pes: PEs of the longest stretch that is summed.
        bytes: Bytes of a message, without cache slots and with the most pairs of tokens and experts on a column.
        bytes_per_slot, bytes_per_pair: What a cache slot adds to them, and what a pair fewer takes off.
        before, behind: PEs of the line before and behind the stretch that get the sums too.
    """

    phase: str
    pes: int
    bytes: int
    bytes_per_slot: int
    bytes_per_pair: int
    before: int = 0
    behind: int = 0


Trees = tuple[tuple[TreeSize, int], ...]
"""Sizes of all-reduces, each with its number of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The decisions that the compiler makes by trying alternatives.

    Of a wafer's mesh a rectangle of ``mesh`` rows and columns (None: all) is cut into ``bands`` one below the other,
    and a band into at most ``per_band`` regions. Where it is ``turned``, rows of regions run along the mesh's columns.
    ``prefill_chunk`` tokens are processed at once; ``head_chunk`` vocabulary
    entries a column are projected at once. ``rewrites`` are those of the steps of layers, by name, with the setting
    of those that have some; ``verify_rewrites`` those of a pass over several tokens of one user, None for the same.
    ``trees`` has the sizes of all-reduces that take other groups than those with the fewest relays, and how many.
    Stages begin and end between layers, or, where ``block_parts`` is not 0, between attention and so many parts of a
    feed-forward block. Attention works on at most ``attention_cols`` columns of a region, those in its middle; 0: on
    all.
    """

    bands: int = 1
    per_band: int = 1
    mesh: tuple[int, int] | None = None
    turned: bool = False
    prefill: str
    prefill_chunk: int
    head_chunk: int
    rewrites: Rewrites = ()
    verify_rewrites: Rewrites | None = None
    trees: Trees = ()
    block_parts: int = 0
    attention_cols: int = 0

    def uses(self, rewrite: str) -> bool:
        """Return whether a rewrite is used in any phase."""
        return any(name == rewrite for name, _ in (*self.rewrites, *(self.verify_rewrites or ())))

    def setting_of(self, rewrite: str) -> int:
        """Return the setting of a rewrite for decode; 0 where it is not used."""
        return dict(self.rewrites).get(rewrite, 0)

    def always_uses(self, rewrite: str) -> bool:
        """Return whether a rewrite is used in all phases."""
        of_phases = [self.rewrites] if self.verify_rewrites is None else [self.rewrites, self.verify_rewrites]
        return all(any(name == rewrite for name, _ in rewrites) for rewrites in of_phases)


def check_types(dtype: str, activations: str | None) -> None:
    """Raise UnknownName for an unknown type, BadInput where weights and activations must have the same type."""
    if dtype not in (*DTYPES, *CODINGS):
        raise UnknownName("dtype", dtype, (*DTYPES, *CODINGS))
    if activations not in (DTYPES if dtype in CODINGS else (*DTYPES, None)):
        raise UnknownName("type of activations", str(activations), DTYPES)
    if dtype not in CODINGS and activations not in (None, dtype):
        message = (
            f"--activations {activations}: {dtype} weights are multiplied in their own type; leave it out, "
            f"or quantise with --dtype {' or '.join(CODINGS)}"
        )
        raise BadInput(message)


def unsupported_on_mesh(spec: ModelSpec, options: Options) -> str:
    """Return the property of a request that products on the mesh do not support; "" where they do.

    Codes do not travel: their scales and the groups of their rows would have to go along.
    """
    if spec.latent is not None:
        return "latent attention"
    if any(layer.experts for layer in spec.layers):
        return "experts"
    if options.across_wafers:
        return f"--mapping {options.mapping} on several wafers"
    return f"{options.dtype} weights" if options.dtype in CODINGS else ""
