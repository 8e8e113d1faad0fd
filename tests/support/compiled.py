"""Compilation of a model with the layout search."""

from __future__ import annotations

from wse.compiler.options import Options
from wse.compiler.search.finalists import Cost
from wse.compiler.search.search import search
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program


def compile_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, cost: Cost | None = None
) -> Program:
    """Search for the layout of a model with the lowest cost, and return its Program.

    A layout is one way to divide wafers into regions. For arguments and errors, see `search`.
    """
    return search(spec, wafer, software, options, cost).program
