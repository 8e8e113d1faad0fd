"""Stages that need more bytes than a PE has: no condensed model with a stage like one of them is compiled again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from wse.compiler.search.reduced.condense import CondensedModel


class Misfits:
    """Bytes on a PE of stages that did not fit, for one model, machine and request on any number of wafers."""

    def __init__(self) -> None:
        self._needed_bytes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._needed_bytes)

    def needed_bytes(self, small: CondensedModel) -> int:
        """Return the most bytes that a stage like one of a condensed model needed; 0 where none is known."""
        return max(self._needed_bytes.get(key, 0) for key in _keys(small))

    def learn(self, small: CondensedModel, needed_bytes: Sequence[int], available_bytes: int) -> None:
        """Take in what the stages of a condensed model need, where that is more than there are."""
        for key, size in zip(_keys(small), needed_bytes, strict=True):
            if size > available_bytes:
                self._needed_bytes[key] = size


def _keys(small: CondensedModel) -> list[Hashable]:
    """Return all that the bytes of each stage go by: its class, and the options and choices that layouts differ in."""
    options, choice = small.state.options, small.state.choice
    anywhere = replace(choice, bands=1, per_band=1, mesh=None, turned=False, block_parts=0)
    placement = options.experts, small.state.has_expert_stage, options.groups
    return [(*placement, anywhere, one) for one in small.classes]
