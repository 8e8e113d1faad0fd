"""Layers of small models on small meshes, of decode, of prefill and of passes over several tokens, for both timing
readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phase import PhaseRun, phase_run
from wse.compiler.options import (
    DECODE,
    LAYERS,
    MESH_GEMM,
    MESH_GEMM_OWN,
    MODEL,
    PREFILL,
    RELEASED,
    REPORT,
    SCHEDULES,
    Options,
)
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import search
from wse.compiler.search.trees import FEWER_GROUPS, in_groups
from wse.hardware.mesh import mesh_on
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.configs.rope import plain_rope
from wse.models.spec import Layer, ModelSpec
from wse.program.program import Program
from wse.studies.validate.agreement.kinds import KINDS

SMALLEST, LARGEST = 8, 48  # PEs on a side
SMALLEST_SQUARE, LARGEST_SQUARE = 4, 16  # of prefill, whose rounds the reference takes one after another
CONTEXT: Final = 256
MOST_VERIFIED: Final = 8
FITTED_GROUPS: Final = (0, *FEWER_GROUPS)
ON_MESH: Final = ("hops", "relays", "compute", "launch")
"""Causes of cycles that the reference knows: it has neither links between wafers nor a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCase:
    """A request: a model of ``spec`` on a mesh, one token that joins ``cached`` others, or the prefill of as many.

    With ``verify_tokens`` it is a pass over so many tokens of one user that joins those others.

    ``mapping`` ``region`` has one layer alone, ``pipeline`` a model of three layers on two regions, mostly of different
    rows or columns. ``prefill`` is the product of a prefill, else empty; ``store_and_forward`` and ``schedule``
    as of the compiler's Options. ``groups`` are those of all-reduces, 0 for those with the fewest relays. Attention is
    on at most ``attention_cols`` columns, 0: on all. ``kind`` is one of KINDS.
    """

    spec: ModelSpec
    rows: int
    cols: int
    cached: int
    dtype: str
    mapping: str
    prefill: str = ""
    store_and_forward: bool = False
    schedule: str = RELEASED
    verify_tokens: int = 0
    groups: int = 0
    attention_cols: int = 0
    kind: str = "plain"

    @property
    def description(self) -> str:
        """The sizes, in few words."""
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
    """``count`` requests; the same ones for the same seed.

    Several layers are of any of KINDS; rewritten ones may have attention on some columns alone.
    """
    rng, of_groups, of_kinds = (np.random.default_rng([seed, *name]) for name in (b"layers", b"groups", b"kinds"))
    for i in range(count):
        rows, cols = (int(n) for n in rng.integers(SMALLEST, LARGEST + 1, 2))
        kv_heads, share = int(rng.choice([1, 2, 4])), int(rng.choice([1, 2, 4]))
        head_size = int(rng.choice([8, 16, 32]))
        hidden = kv_heads * share * head_size
        spec = ModelSpec(
            name="small",
            family="llama",
            layers=(Layer(),) * (3 if i % 2 else 1),
            hidden_size=hidden,
            head_count=kv_heads * share,
            kv_head_count=kv_heads,
            head_size=head_size,
            attention_scale=head_size**-0.5,
            rope=plain_rope(head_size, 1e4),
            ffn_size=int(rng.integers(2 * hidden, 4 * hidden)),
            vocab_size=256,
            context_limit=CONTEXT,
            norm_eps=1e-5,
            tied_embedding=True,
            dtype="float32",
            bos_token_id=None,
            eos_token_ids=(),
        )
        dtype, cached = str(rng.choice(["float16", "float32"])), int(rng.integers(1, CONTEXT))
        mapping = "region" if spec.layer_count == 1 else "pipeline"
        schedule, groups = SCHEDULES[i // 2 % 2], int(of_groups.choice(FITTED_GROUPS))
        kind, narrow, columns = str(of_kinds.choice([*KINDS])), of_kinds.integers(2), of_kinds.integers(1, cols // 2)
        several = mapping == "pipeline"
        yield LayerCase(
            spec=KINDS[kind](spec) if several else spec,
            rows=rows,
            cols=cols,
            cached=cached,
            dtype=dtype,
            mapping=mapping,
            schedule=schedule,
            groups=0 if schedule == RELEASED else groups,
            attention_cols=int(narrow * columns) if several and schedule != RELEASED else 0,
            kind=kind if several else "plain",
        )


def prefill_layers(count: int, seed: int) -> Iterator[LayerCase]:
    """``count`` prefills of a layer on small squares, by MeshGEMM in turn with decode's weights and its own."""
    rng = np.random.default_rng([seed, *b"prefill"])
    for i, drawn_layers in enumerate(layers(2 * count, seed)):
        if i % 2:
            continue  # of one layer alone are those that remain
        side, own_weights = int(rng.integers(SMALLEST_SQUARE, LARGEST_SQUARE + 1)), i % 4 == 0
        head = drawn_layers.spec.hidden_size
        one_head = replace(
            drawn_layers.spec,
            head_count=1,
            kv_head_count=1,
            head_size=head,
            attention_scale=head**-0.5,
            rope=plain_rope(head, 1e4),
        )
        yield replace(
            drawn_layers,
            spec=one_head if own_weights else drawn_layers.spec,
            rows=side,
            cols=side,
            prefill=MESH_GEMM_OWN if own_weights else MESH_GEMM,
            store_and_forward=bool(rng.integers(2)),
        )


def verify_layers(count: int, seed: int) -> Iterator[LayerCase]:
    """``count`` passes over a few tokens of one user, by layers as of decode."""
    rng = np.random.default_rng([seed, *b"verify"])
    for drawn_layers in layers(count, seed):
        tokens = int(rng.integers(2, MOST_VERIFIED + 1))
        yield replace(drawn_layers, verify_tokens=tokens, cached=min(drawn_layers.cached, CONTEXT - tokens))


def compile_layers(layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> tuple[Program, WaferSpec]:
    """Return the Program of a request, and the mesh that it is for.

    What does not fit in SRAM is laid out all the same.
    """
    machine = replace(mesh_on(wafer, layers.rows, layers.cols), name=wafer.name)
    alone = layers.mapping == "region"
    options = Options(
        mapping=layers.mapping,
        wafers=1,
        dtype=layers.dtype,
        accumulate="float32",
        context=CONTEXT,
        prompt_tokens=(layers.cached if layers.prefill else 1,),
        capacity=REPORT,
        scope=LAYERS if alone else MODEL,
        phases=(PREFILL,) if layers.prefill else (DECODE,),
        verify_tokens=layers.verify_tokens,
        prefill=layers.prefill or None,
        store_and_forward=layers.store_and_forward,
        schedule=layers.schedule,
    )
    found = search(layers.spec, machine, software, options)
    choice = replace(found.choice, attention_cols=layers.attention_cols)
    if layers.groups:
        choice = in_groups(layers.spec, machine, software, found.options, choice, layers.groups)
    if choice == found.choice:
        return found.program, machine
    return compile_choice(layers.spec, machine, software, found.options, choice), machine


def time_layers(layers: LayerCase, wafer: WaferSpec, software: SoftwareProfile) -> tuple[PhaseCost, PhaseRun]:
    """Return a decoded token, a prefill in one chunk, or a pass, by the fabric model and by the reference."""
    program, machine = compile_layers(layers, wafer, software)
    if layers.prefill:
        (phase,) = program.prefill
        return Fabric(program, machine, software).prefill_cost(0), phase_run(program, phase, [0], machine, software)
    if layers.verify_tokens:
        cost = Fabric(program, machine, software).verify_cost(layers.cached)
        return cost, phase_run(program, program.verify[0], [layers.cached], machine, software)
    cost = Fabric(program, machine, software).decode_cost(layers.cached)
    return cost, phase_run(program, program.decode, [layers.cached], machine, software)
