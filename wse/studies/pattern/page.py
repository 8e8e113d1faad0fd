"""The page of ``wse pattern``: tables, and animations of wavelets that move along a line of PEs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.run import MachineRun
from wse.hardware.spec import WaferSpec
from wse.program.line_patterns import named_pattern
from wse.reports.number_text import plural
from wse.reports.output_file import page_path, picture_path, png_of, write_output
from wse.reports.page.html_table import table_as_html
from wse.reports.page.inline_page import inline_page
from wse.reports.progress import OnProgress, ignore
from wse.studies.pattern.reference import simulate_pattern
from wse.studies.pattern.request import PatternRequest
from wse.studies.pattern.result import PatternCase, PatternResult
from wse.studies.pattern.study import PatternSetup, check_pattern, compare_patterns, pattern_setup


def compare_to_files(
    request: PatternRequest,
    on_progress: OnProgress = ignore,
    *,
    html: str | Path | None = None,
    png: str | Path | None = None,
) -> PatternResult:
    """Compare communication patterns, and write a page or a plot of the result if requested.

    Args:
        request: The patterns, line lengths and word counts to compare.
        on_progress: Called with (cases done, total, name of the next case).
        html: Path of the page; None for no page.
        png: Path of the plot; None for no plot.

    Raises:
        BadInput: An option is invalid (see `compare_patterns`), or a file cannot be written.
    """
    page = None if html is None else page_path("--html", str(html))
    plot = None if png is None else picture_path("--png", str(png))
    result = compare_patterns(request, on_progress)
    if page is not None:
        setup = pattern_setup(request)
        animations = animations_of(request, result.cases, setup)
        write_output("--html", page, as_html(result, animations, setup.wafer))
    if plot is not None:
        write_output("--png", plot, png_of(result.plot()))
    return result


MAX_HOPS: Final = 20_000
"""Maximum number of hops in an animation, which then takes up about 400 kB of the page."""
MAX_HOPS_OF_PAGE: Final = 120_000
"""Maximum number of hops in all animations of a page."""
MAX_PES: Final = 128
"""Longest line whose PEs can be distinguished on a screen."""


def animations_of(request: PatternRequest, cases: Sequence[PatternCase], setup: PatternSetup) -> list[dict[str, Any]]:
    """Simulate small cases of communication patterns, and return their animations for the page.

    Cases with a fault and large cases are left out. All animations together have at most
    `MAX_HOPS_OF_PAGE` hops; cases with few hops are selected first.

    Args:
        request: Request with the patterns.
        cases: The compared cases. Each is a pattern on a line of PEs with a number of words per PE.
        setup: The machine on which the patterns run.
    """
    patterns_by_name = {pattern.name: pattern for pattern in map(named_pattern, request.cases()[0])}
    animations: dict[int, dict[str, Any]] = {}
    remaining_hops = MAX_HOPS_OF_PAGE
    for index, case in sorted(enumerate(cases), key=lambda item: (item[1].hops or 0, item[1].pes)):
        if case.hops is None or case.pes > MAX_PES or case.hops > min(MAX_HOPS, remaining_hops):
            continue
        remaining_hops -= case.hops
        checked = check_pattern(patterns_by_name[case.pattern], case.pes, case.words, setup.wafer)
        machine, machine_run, _ = simulate_pattern(
            checked.schedule, checked.schedule_words, setup.wafer, setup.software, log=True
        )
        animations[index] = _animation(case, machine, machine_run)
    return [animations[index] for index in sorted(animations)]


def _animation(case: PatternCase, machine: WaveletMachine, machine_run: MachineRun) -> dict[str, Any]:
    """Convert a simulation log to the data that the page's script needs to draw the animation.

    Returns:
        - ``name``: Caption.
        - ``pes``: Number of PEs.
        - ``root``: Index of the PE that receives the result or sends its words.
        - ``cycles``: Cycles from the start to the end of the last operation.
        - ``moves``: Five integers for each wavelet that leaves a router, sorted by cycle: cycle, PE,
          output port, input port, colour. Ports are 0 for the router's own PE, 1 for the next PE,
          and -1 for the previous PE.
        - ``operations``: Three integers for each vector operation of a PE: PE, first cycle, and the
          cycle after the last.
    """
    side = np.array([0, 1, 0, -1, 0])  # direction of each Port along the line
    cycle, _, col, colour, output_port, input_port = machine_run.moves.T
    moves = np.stack([cycle, col, side[output_port], side[input_port], colour], axis=1)
    pes = np.concatenate([block.pes for block in machine.operation_blocks])
    operations = np.concatenate([pes[:, None], machine_run.op_times], axis=1)
    return {
        "name": f"{case.pattern}: {case.pes} PEs, {case.words} words",
        "pes": case.pes,
        "root": case.root,
        "cycles": machine_run.cycles,
        "moves": moves.reshape(-1).tolist(),
        "operations": operations.reshape(-1).tolist(),
    }


def as_html(result: PatternResult, animations: Sequence[dict[str, Any]], wafer: WaferSpec) -> bytes:
    """Return the HTML page for a comparison of communication patterns, encoded in UTF-8.

    Args:
        result: The comparison.
        animations: The animations to include.
        wafer: The wafer. The animations need its cycles per hop and per ramp (the connection
            between a router and its PE).
    """
    left_out = len(result.cases) - len(result.faults) - len(animations)
    limits = f"at most {MAX_PES} PEs and {MAX_HOPS:,} hops of words in a case"
    return inline_page(
        "wse.studies.pattern",
        scripts=["pattern.js"],
        data={
            "hop_cycles": wafer.hop_cycles,
            "ramp_cycles": wafer.ramp_cycles,
            "animations": animations,
        },
        title=f"Patterns on a line of {result.machine}",
        tables=[table_as_html(table) for table in result.tables(detail=True)],
        faults=result.faults,
        names=[animation["name"] for animation in animations],
        left_out=f"{plural(left_out, 'case')} of the tables not played: {limits}" if left_out else "",
    )
