"""Bundled reduces of a line into its end, from which other patterns are built."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Final

from wse_mappings.patterns import auto_gen, binary_tree, chain, star, two_phase
from wse_mappings.patterns.pattern import Reduce
from wse_mappings.patterns.sampling import LEVEL_CYCLES, Sizes

_PATTERNS: Final = (chain.PATTERN, star.PATTERN, binary_tree.PATTERN, two_phase.PATTERN, auto_gen.PATTERN)

LINE_REDUCES: Final = MappingProxyType(
    {pattern.name: pattern.reduce for pattern in _PATTERNS if pattern.reduce is not None}
)
"""Reduces of a line, keyed by pattern name, in the order in which searches try them."""


def sample_reduce(sizes: Sizes) -> tuple[str, Reduce]:
    """Return the name and the function of a random reduce algorithm, such as a chain or a tree.

    A parameter of the algorithm, such as a group size, has its default value. For an auto-gen tree,
    it is the best depth for ``sizes``.
    """
    depth = auto_gen.best_depth(sizes.length, sizes.words, LEVEL_CYCLES)
    reduces: dict[str, Reduce] = {
        "chain": chain.chain,
        "star": star.star,
        "binary_tree": binary_tree.binary_tree,
        "two_phase": two_phase.two_phase,
        "auto_gen": partial(auto_gen.auto_gen, depth=depth),
    }
    name = list(reduces)[sizes.number_below(len(reduces))]
    return name, reduces[name]
