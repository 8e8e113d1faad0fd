"""Stages that need more bytes than a PE has: no condensed model with a stage like one of them is compiled again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from wse.compiler.search.reduced.condense import CondensedModel


class Misfits:
    """Bytes per PE of stages that did not fit, for one model, machine and request on any number of wafers."""

    def __init__(self) -> None:
        self._needed_bytes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._needed_bytes)

    def needed_bytes(self, small: CondensedModel) -> int:
        """Return the most bytes that an equivalent stage needed in an earlier trial; 0 where none is known."""
        return max(self._needed_bytes.get(key, 0) for key in _keys(small))

    def learn(self, small: CondensedModel, needed_bytes: Sequence[int], available_bytes: int) -> None:
        """Record the bytes that the stages of a reduced model need where these exceed the available bytes."""
        for key, size in zip(_keys(small), needed_bytes, strict=True):
            if size > available_bytes:
                self._needed_bytes[key] = size


def _keys(small: CondensedModel) -> list[Hashable]:
    """Return everything that the bytes of each stage depend on: its class, the options and the choices."""
    options, choice = small.state.options, small.state.choice
    anywhere = replace(choice, bands=1, per_band=1, mesh=None, turned=False, block_parts=0)
    placement = options.experts, small.state.has_expert_stage, options.groups
    return [(*placement, anywhere, one) for one in small.classes]
