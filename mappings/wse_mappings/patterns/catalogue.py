"""The bundled patterns, in the order in which searches try them and checks show them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from wse_mappings.patterns import (
    auto_gen,
    binary_tree,
    both_sides,
    cache_shift,
    chain,
    edge_stream,
    gather,
    k_tree,
    multicast,
    point_to_point,
    reduce_multicast,
    ring_all_reduce,
    ring_reduce,
    ring_shift,
    rings_at_once,
    snake,
    star,
    transpose,
    two_phase,
    x_y,
)
from wse_mappings.patterns.pattern import Pattern

PATTERNS: Final[tuple[Pattern, ...]] = (
    chain.PATTERN,
    star.PATTERN,
    binary_tree.PATTERN,
    two_phase.PATTERN,
    k_tree.PATTERN,
    ring_all_reduce.PATTERN,
    auto_gen.PATTERN,
    both_sides.PATTERN,
    reduce_multicast.PATTERN,
    gather.PATTERN,
    point_to_point.PATTERN,
    cache_shift.PATTERN,
    edge_stream.PATTERN,
    transpose.PATTERN,
    multicast.PATTERN,
    ring_shift.PATTERN,
    ring_reduce.PATTERN,
    snake.PATTERN,
    x_y.PATTERN,
    rings_at_once.PATTERN,
)

BUNDLED_PATTERNS: Final = MappingProxyType({pattern.name: pattern for pattern in PATTERNS})
"""The patterns that come with wse, by name."""
