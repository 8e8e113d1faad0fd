"""The views of ``wse inspect`` that are lists of what queries give, and the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from wse.inspect.expert_load import ExpertLoadResult
from wse.inspect.query.groups import Group
from wse.inspect.query.links import LayerLinks, Link
from wse.inspect.query.pe import Pe
from wse.inspect.query.step_sums import PhaseTotals
from wse.inspect.query.steps import Step
from wse.inspect.query.tensors import TensorValues
from wse.inspect.query.tokens import TokenTime
from wse.inspect.query.traced_run import TracedRun
from wse.inspect.query.tree import LayerOps
from wse.inspect.query.view import View
from wse.inspect.query.wavelets import Wavelets
from wse.report.result import Doc, Result


@dataclass(frozen=True, kw_only=True)
class CrossingBytes(Result):
    """What crossed between wafers and with the host."""

    bytes: Annotated[int, Doc("bytes over the run", "B")]


@dataclass(frozen=True, kw_only=True)
class SummaryView(TracedRun, View):
    """What was run, where the cycles went, how full the PEs are, and the busiest links and costliest steps."""

    crossing: Annotated[CrossingBytes, Doc("what crossed between wafers and with the host")]
    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    wavelets: Annotated[Wavelets | None, Doc("log of wavelets; of a run with `--wavelets`")] = None
    experts: Annotated[ExpertLoadResult | None, Doc("load of experts; of a model that has any")] = None
    tree: Annotated[tuple[LayerOps, ...], Doc("ops by layer")]
    steps: Annotated[tuple[Step, ...], Doc("costliest steps")]
    report: Annotated[Mapping[str, object], Doc("report that the run ended with")]


@dataclass(frozen=True, kw_only=True)
class StepsView(View):
    """Steps in an order."""

    sort: Annotated[str, Doc("what they are sorted by")]
    steps: Annotated[tuple[Step, ...], Doc("the steps")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each step."""
        return [step.to_dict() for step in self.steps]


@dataclass(frozen=True, kw_only=True)
class GroupsView(View):
    """Cycles by group."""

    by: Annotated[str, Doc("what cycles are added up by")]
    phases: Annotated[Mapping[str, PhaseTotals], Doc("totals of each phase that ran")]
    groups: Annotated[tuple[Group, ...], Doc("groups of each phase, the largest first")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each group."""
        return [group.to_dict() for group in self.groups]


@dataclass(frozen=True, kw_only=True)
class LinksView(View):
    """Words on links."""

    links: Annotated[tuple[Link, ...], Doc("busiest links")]
    layer_links: Annotated[tuple[LayerLinks, ...], Doc("words of each layer on links")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each link."""
        return [link.to_dict() for link in self.links]


@dataclass(frozen=True, kw_only=True)
class PeView(View):
    """One PE."""

    pe: Annotated[Pe, Doc("the PE")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each buffer in its SRAM."""
        return [buffer.to_dict() for buffer in self.pe.sram.buffers] if self.pe.sram else []


@dataclass(frozen=True, kw_only=True)
class TokensView(View):
    """Tokens."""

    tokens: Annotated[tuple[TokenTime, ...], Doc("the tokens")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each token."""
        return [token.to_dict() for token in self.tokens]


@dataclass(frozen=True, kw_only=True)
class TreeView(View):
    """Ops by layer."""

    phases: Annotated[Mapping[str, PhaseTotals], Doc("totals of each phase that ran")]
    tree: Annotated[tuple[LayerOps, ...], Doc("layers with their ops")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each op."""
        return [{"layer": layer.layer, **op.to_dict()} for layer in self.tree for op in layer.ops]


@dataclass(frozen=True, kw_only=True)
class CyclesView(View):
    """Moves of wavelets in some cycles."""

    wavelets: Annotated[Wavelets, Doc("log of wavelets, with the moves")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each move."""
        return [move.to_dict() for move in self.wavelets.replayed or ()]


@dataclass(frozen=True, kw_only=True)
class TensorsView(View):
    """Tensors that were recorded."""

    tensors: Annotated[tuple[TensorValues, ...], Doc("the tensors")]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row for each tensor."""
        return [tensor.to_dict() for tensor in self.tensors]
