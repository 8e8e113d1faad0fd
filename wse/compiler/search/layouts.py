"""The layouts that a search tries, in the order of their promise, and the products that prefill may use on them."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import DECODE, MESH_GEMM_OWN, PREFILL_PRODUCTS, THIN_GEMM, Options, needs_thin
from wse.compiler.strategies import strategies, strategy
from wse.hardware.spec import WaferSpec
from wse.models.counts import parameters_per_token
from wse.models.spec import ModelSpec
from wse_mappings.strategies.strategy import Demand, Layout


def layouts(mapping: str, demand: Demand) -> list[Layout]:
    """The layouts of the mapping that was asked for, each once, the fewest regions first."""
    chosen = strategy(mapping)
    others = [other for name, other in strategies().items() if name != mapping] if chosen.tries_others else []
    return list(dict.fromkeys(chosen.layouts(demand, others)))


def promise(spec: ModelSpec, wafer: WaferSpec, demand: Demand, layout: Layout) -> float:
    """About the fewest cycles that a token can take on regions of that shape: for the order of trials alone.

    Nine all-reduces of a layer go over whole lines, seven of them along columns, from the ends to the middle and back
    (He et al., WaferLLM, OSDI 2025); a PE multiplies with its share of the weights that a token uses.
    """
    rows, cols = layout.region(demand)
    hops = spec.layer_count * (7 * rows + 2 * cols) * wafer.hop_cycles
    macs = parameters_per_token(spec) / (rows * cols)
    return hops + macs / wafer.mac_fp16_fp32_per_cycle


def prefills(spec: ModelSpec, options: Options, demand: Demand, layout: Layout) -> tuple[str, ...]:
    """The products to try on regions of that shape, the least demanding last; none where only another was asked for.

    Weights of prefill's own are tried unasked where they take the place of decode's, not beside them.
    """
    rows, cols = layout.region(demand)
    unasked = [p for p in PREFILL_PRODUCTS if p != MESH_GEMM_OWN or DECODE not in options.phases]
    wanted = unasked if options.prefill is None else [options.prefill]
    squares = rows == cols and not needs_thin(spec, replace(options, mapping=layout.mapping))
    return tuple(product for product in wanted if squares or product == THIN_GEMM)
