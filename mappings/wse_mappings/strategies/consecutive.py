"""Consecutive layers on consecutive regions: the partition that most strategies share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wse_mappings.cuts.contiguous import even_runs
from wse_mappings.strategies.strategy import Demand, Layout, Share


def consecutive(demand: Demand, layout: Layout, layer_bytes: Sequence[float]) -> list[Share]:
    """Layers in order on wafers, on the bands of a wafer and on the regions of a band.

    Each has as even a share of the bytes as whole layers allow, the tables of embedding and head counted with them.
    A wafer holds at least one layer; a region may hold a table alone.

    Args:
        demand: What is placed.
        layout: Bands, and the most regions in one.
        layer_bytes: By layer, the bytes that count.
    """
    before = [] if demand.embedding_bytes is None else [demand.embedding_bytes]
    after = [] if demand.head_bytes is None else [demand.head_bytes]
    units = [*before, *layer_bytes, *after]
    shares = []
    for wafer, first, count in _by_wafer(before, layer_bytes, after, demand.wafers):
        on_wafer = units[first : first + count]
        for band, (start, in_band) in enumerate(even_runs(on_wafer, min(layout.bands, count))):
            regions = even_runs(on_wafer[start : start + in_band], min(layout.per_band, in_band))
            for at, length in regions:
                unit = first + start + at
                shares.append(_share(wafer, band, unit, units[unit : unit + length], len(before), demand.layers))
    return shares


def whole(demand: Demand, layer_bytes: Sequence[float], wafers: int = 1) -> Share:
    """All layers in one region, the first of a wafer or of several that it spans."""
    tables = (demand.embedding_bytes or 0.0) + (demand.head_bytes or 0.0)
    return Share(0, 0, 0, demand.layers, sum(layer_bytes) + tables, wafers)


def _by_wafer(
    before: Sequence[float], layer_bytes: Sequence[float], after: Sequence[float], wafers: int
) -> Iterator[tuple[int, int, int]]:
    """(wafer, first unit, units): tables go with the first or last layer, as a wafer has a layer at least."""
    inner = list(layer_bytes)
    inner[0] += sum(before)
    inner[-1] += sum(after)
    end = len(before) + len(inner) + len(after)
    for wafer, (start, count) in enumerate(even_runs(inner, wafers)):
        first = start + len(before) if wafer else 0
        yield wafer, first, (end if wafer == wafers - 1 else start + count + len(before)) - first


def _share(wafer: int, band: int, unit: int, held: Sequence[float], before: int, layers: int) -> Share:
    """Units of one region as layers: ``before`` of them stand before the first layer."""
    first, last = max(0, unit - before), min(layers, max(0, unit + len(held) - before))
    return Share(wafer, band, first, last, sum(held))
