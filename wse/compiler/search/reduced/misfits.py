"""Stages that are known not to fit, so that equivalent stages are not compiled again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from wse.compiler.search.reduced.reduced_model import ReducedModel


class Misfits:
    """Cache of stages that did not fit on PEs, with their bytes, to avoid compiling them again.

    A stage is the part of a model on one rectangle of PEs. All stages in the cache belong to the
    same model, machine and request, on any number of wafers.
    """

    def __init__(self) -> None:
        self._needed_bytes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._needed_bytes)

    def needed_bytes(self, reduced: ReducedModel) -> int:
        """Return the most bytes per PE that a stage of a reduced model is known to need, or 0.

        The bytes of a stage are known if an equivalent stage, in this or another layout, did not
        fit earlier.
        """
        return max(self._needed_bytes.get(key, 0) for key in _keys(reduced))

    def learn(self, reduced: ReducedModel, needed_bytes: Sequence[int], available_bytes: int) -> None:
        """Record which stages of a reduced model did not fit, and how many bytes they need.

        Args:
            reduced: Model with one layer of each kind.
            needed_bytes: Bytes per PE of each stage.
            available_bytes: Bytes of SRAM per PE.
        """
        for key, size in zip(_keys(reduced), needed_bytes, strict=True):
            if size > available_bytes:
                self._needed_bytes[key] = size


def _keys(reduced: ReducedModel) -> list[Hashable]:
    """Return a key for each stage of a reduced model; stages with equal keys need the same bytes.

    The key contains everything that determines these bytes, such as the layers of the stage, the
    shape of its region, and compiler settings. It does not contain the layout, so that a stage that
    did not fit in one layout is recognised in others.
    """
    options, choice = reduced.state.options, reduced.state.choice
    choice_without_layout = replace(choice, bands=1, per_band=1, mesh=None, is_transposed=False, block_parts=0)
    placement = options.experts, reduced.state.has_expert_stage, options.groups
    return [(*placement, choice_without_layout, stage_class) for stage_class in reduced.classes]
