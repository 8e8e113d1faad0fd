"""Random layers of small models, one for each type of attention, norm and block, on small meshes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.phase import PhaseRun, phase_run
from wse.compiler.options import (
    BASELINE,
    DECODE,
    LAYERS,
    MESH_GEMM,
    MESH_GEMM_OWN,
    MODEL,
    PREFILL,
    REPORT,
    SCHEDULES,
    Options,
)
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.fitting.tree_costs import FEWER_GROUPS
from wse.compiler.search.search import search
from wse.compiler.search.trees import with_group_count
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on
from wse.models.attention_traits import Latent
from wse.models.configs.rope import plain_rope
from wse.models.expert_traits import Experts
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.studies.validate.measured.models import plain_model


def _with_latent_attention(spec: ModelSpec) -> ModelSpec:
    size = spec.head_size
    latent = Latent(
        q_rank=spec.hidden_size // 2, kv_rank=2 * size, nope_size=size, rope_size=size // 2, value_size=size
    )
    cached, rope = latent.kv_rank + latent.rope_size, plain_rope(latent.rope_size, 1e4)
    return replace(spec, latent=latent, rope=rope, kv_head_count=1, head_size=cached)


def _with_experts(spec: ModelSpec) -> ModelSpec:
    size = spec.ffn_size // 4
    experts = Experts(count=8, active=2, ffn_size=size, shared_size=size, scoring="sigmoid", correction=True)
    return _set_experts(spec, experts)


def _with_softmax_experts(spec: ModelSpec) -> ModelSpec:
    return _set_experts(spec, Experts(count=8, active=3, ffn_size=spec.ffn_size // 4, router_bias=True))


def _set_experts(spec: ModelSpec, experts: Experts) -> ModelSpec:
    """Return the model with every feed-forward block replaced by a mixture of experts."""
    return replace(spec, layers=tuple(replace(layer, experts=True) for layer in spec.layers), experts=experts)


KINDS: Final[Mapping[str, Callable[[ModelSpec], ModelSpec]]] = {
    "plain": lambda spec: spec,
    "norms of heads, sinks": lambda spec: replace(spec, head_norm="rms", sinks=True),
    "LayerNorm, biases": lambda spec: replace(
        spec, norm="layer", qkv_bias=True, output_bias=True, ffn_bias=True, gated=False
    ),
    "latent attention": _with_latent_attention,
    "experts and a block beside them": _with_experts,
    "experts chosen by softmax": _with_softmax_experts,
}
"""Functions that turn a plain model into another kind of model, keyed by the kind's name."""


SMALLEST, LARGEST = 8, 48  # PEs on a side
SMALLEST_SQUARE, LARGEST_SQUARE = 4, 16  # PEs on a side in prefill, whose many rounds the reference simulates slowly
CONTEXT: Final = 256
MAX_VERIFIED: Final = 8
FITTED_GROUPS: Final = (0, *FEWER_GROUPS)
ON_MESH: Final = ("hops", "relays", "compute", "launch")
"""Causes of cycles simulated by the reference, which has neither inter-wafer links nor a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCase:
    """A small model on a small mesh, with the phase to be timed.

    Attributes:
        spec: The model.
        rows: Number of PE rows.
        cols: Number of PE columns.
        cached: Number of tokens in the KV cache, or in the prompt for a prefill.
        dtype: Element type of the weights and the cache.
        mapping: ``region`` for a single layer; ``pipeline`` for three layers on two regions, which
            usually differ in their row or column counts.
        prefill: Matrix product used in the timed prefill. Empty to time decode or a verification
            pass.
        store_and_forward: Same as in the compiler's Options.
        schedule: Same as in the compiler's Options.
        verify_tokens: Number of one user's new tokens in a verification pass; 0 for other phases.
        groups: Number of groups per all-reduce; 0 for the number of groups with the fewest relays.
        attention_cols: Maximum number of PE columns with attention; 0 for all columns.
        kind: Kind of model, a key of KINDS.
    """

    spec: ModelSpec
    rows: int
    cols: int
    cached: int
    dtype: str
    mapping: str
    prefill: str = ""
    store_and_forward: bool = False
    schedule: str = BASELINE
    verify_tokens: int = 0
    groups: int = 0
    attention_cols: int = 0
    kind: str = "plain"

    @property
    def description(self) -> str:
        """Description of the phase, sizes and element type, for the details column of the table."""
        spec = self.spec
        heads = f"{spec.head_count} heads, {spec.kv_head_count} of keys, of {spec.head_size}"
        phase = (
            f"{self.prefill}{' stored' * self.store_and_forward} of"
            if self.prefill
            else f"{self.schedule} {f'pass over {self.verify_tokens}' if self.verify_tokens else 'decode'} after"
        )
        sums = f", sums in {self.groups} groups" if self.groups else ""
        kind = "" if self.kind == "plain" else f", {self.kind}"
        columns = f", attention on {self.attention_cols} columns" if self.attention_cols else ""
        sizes = f"hidden {spec.hidden_size}, {heads}, {spec.ffn_size} wide"
        return f"{phase} {self.cached} tokens, {sizes}, {self.dtype}{kind}{sums}{columns}"


def layers(count: int, seed: int) -> Iterator[LayerCase]:
    """Yield cases that time the decoding of one token in random small models.

    The models have one and three layers alternately. A model with three layers has a random feature
    from `KINDS`, such as latent attention or experts. With the schedule ``optimized``, its
    attention may use only some of the PE columns.

    Args:
        count: Number of cases.
        seed: Random seed. The same seed gives the same cases.
    """
    rng, groups_rng, kinds_rng = (np.random.default_rng([seed, *name]) for name in (b"layers", b"groups", b"kinds"))
    for i in range(count):
        rows, cols = (int(n) for n in rng.integers(SMALLEST, LARGEST + 1, 2))
        kv_heads, queries_per_key = int(rng.choice([1, 2, 4])), int(rng.choice([1, 2, 4]))
        head_size = int(rng.choice([8, 16, 32]))
        hidden = kv_heads * queries_per_key * head_size
        spec = plain_model(
            layers=3 if i % 2 else 1,
            hidden_size=hidden,
            ffn_size=int(rng.integers(2 * hidden, 4 * hidden)),
            heads=kv_heads * queries_per_key,
            kv_heads=kv_heads,
            context=CONTEXT,
        )
        dtype, cached = str(rng.choice(["float16", "float32"])), int(rng.integers(1, CONTEXT))
        mapping = "region" if spec.layer_count == 1 else "pipeline"
        schedule, groups = SCHEDULES[i // 2 % 2], int(groups_rng.choice(FITTED_GROUPS))
        kind = str(kinds_rng.choice([*KINDS]))
        narrow, columns = kinds_rng.integers(2), kinds_rng.integers(1, cols // 2)
        several = mapping == "pipeline"
        yield LayerCase(
            spec=KINDS[kind](spec) if several else spec,
            rows=rows,
            cols=cols,
            cached=cached,
            dtype=dtype,
            mapping=mapping,
            schedule=schedule,
            groups=0 if schedule == BASELINE else groups,
            attention_cols=int(narrow * columns) if several and schedule != BASELINE else 0,
            kind=kind if several else "plain",
        )


def prefill_layers(count: int, seed: int) -> Iterator[LayerCase]:
    """Yield cases that time the prefill of one layer of random small models on a square mesh.

    The cases alternate between two layouts of the weights. One is used only by prefill; the other
    one is shared with decode.

    Args:
        count: Number of cases.
        seed: Random seed. The same seed gives the same cases.
    """
    rng = np.random.default_rng([seed, *b"prefill"])
    for i, drawn_layers in enumerate(layers(2 * count, seed)):
        if i % 2:
            continue  # cases with an even index have a single layer
        side, own_weights = int(rng.integers(SMALLEST_SQUARE, LARGEST_SQUARE + 1)), i % 4 == 0
        spec = drawn_layers.spec
        if own_weights:
            spec = plain_model(layers=1, hidden_size=spec.hidden_size, ffn_size=spec.ffn_size, context=CONTEXT)
        yield replace(
            drawn_layers,
            spec=spec,
            rows=side,
            cols=side,
            prefill=MESH_GEMM_OWN if own_weights else MESH_GEMM,
            store_and_forward=bool(rng.integers(2)),
        )


def verify_layers(count: int, seed: int) -> Iterator[LayerCase]:
    """Yield cases that time a verification pass over several tokens in random small models.

    The pass is over 2 to `MAX_VERIFIED` tokens of one user. The models are the same as those
    yielded by `layers` for the same seed.

    Args:
        count: Number of cases.
        seed: Random seed. The same seed gives the same cases.
    """
    rng = np.random.default_rng([seed, *b"verify"])
    for drawn_layers in layers(count, seed):
        tokens = int(rng.integers(2, MAX_VERIFIED + 1))
        yield replace(drawn_layers, verify_tokens=tokens, cached=min(drawn_layers.cached, CONTEXT - tokens))


def compile_layers(layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> tuple[Program, WaferSpec]:
    """Compile the small model of a case, even if it does not fit in SRAM.

    Args:
        layers: The case: a small model, its mesh and the phase to time.
        wafer: Wafer type, whose mesh is reduced to the mesh of the case.
        software: Software costs, including the SRAM that code needs on each PE.

    Returns:
        The Program, and the wafer reduced to the mesh of the case.
    """
    machine = replace(mesh_on(wafer, layers.rows, layers.cols), name=wafer.name)
    single_layer = layers.mapping == "region"
    options = Options(
        mapping=layers.mapping,
        wafers=1,
        dtype=layers.dtype,
        accumulate="float32",
        context=CONTEXT,
        prompt_tokens=(layers.cached if layers.prefill else 1,),
        capacity=REPORT,
        scope=LAYERS if single_layer else MODEL,
        phases=(PREFILL,) if layers.prefill else (DECODE,),
        verify_tokens=layers.verify_tokens,
        prefill=layers.prefill or None,
        store_and_forward=layers.store_and_forward,
        schedule=layers.schedule,
    )
    found = search(layers.spec, machine, software, options)
    choice = replace(found.choice, attention_cols=layers.attention_cols)
    if layers.groups:
        choice = with_group_count(layers.spec, machine, software, found.options, choice, layers.groups)
    if choice == found.choice:
        return found.program, machine
    return compile_choice(layers.spec, machine, software, found.options, choice), machine


def time_layers(layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> tuple[PhaseCost, PhaseRun]:
    """Compile the small model of a case and time it with both timing models.

    The timed phase is the decoding of a token, a single-chunk prefill, or a verification pass.

    Args:
        layers: The case.
        wafer: The machine, whose mesh is reduced to the mesh of the case.
        software: Software costs of a PE, such as cycles for starting a step or relaying a message.

    Returns:
        The cost according to the fast timing model, and the result of the cycle-by-cycle
        simulation.
    """
    program, machine = compile_layers(layers, wafer, software)
    fabric, cached = Fabric(program, machine, software), layers.cached
    if layers.prefill:
        (phase,), cost, cached = program.prefill, fabric.prefill_cost(0), 0
    elif layers.verify_tokens:
        phase, cost = program.verify[0], fabric.verify_cost(cached)
    else:
        phase, cost = program.decode, fabric.decode_cost(cached)
    return cost, phase_run(program, phase, [cached], machine, software)
