"""``wse inspect A --diff B``: settings, cycles, SRAM and ops that differ between two traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from wse.reports.result import Doc, Result, plain
from wse.tracing.query.summary import TracedRun
from wse.tracing.query.two_traces.changes import (
    LAYER,
    Amount,
    Change,
    changes,
    changes_by_phase,
    fold_changes,
    read_totals,
)
from wse.tracing.query.view import View
from wse_traces.reader.read import Trace
from wse_traces.schema import PHASES

GROUPS: Final = {"kind of op": "kind", LAYER: LAYER, "op": "name"}
NOT_SET: Final = object()


class Setting(Result):
    """A setting that differs between two runs, with its value in each run.

    A run without the setting has the value ``NOT_SET``. None would not do, because it is an
    ordinary value.
    """

    name: Annotated[str, Doc("name of the setting")]
    first: Annotated[Any, Doc("value in the first run; absent if the run lacks the setting")] = NOT_SET
    second: Annotated[Any, Doc("value in the second run; absent if the run lacks the setting")] = NOT_SET

    def to_dict(self) -> dict[str, Any]:
        """Convert the setting to a dict with the keys ``name``, ``first`` and ``second``.

        The keys ``first`` and ``second`` contain the values in the two runs. If a run does not have
        the setting, its key is missing.
        """
        sides = {"first": self.first, "second": self.second}
        return {"name": self.name, **{side: plain(value) for side, value in sides.items() if value is not NOT_SET}}


class UnsharedOps(Result):
    """Names of the ops that only one of two runs has, for example because of different rewrites."""

    first: Annotated[tuple[str, ...], Doc("ops that only the first run has")]
    second: Annotated[tuple[str, ...], Doc("ops that only the second run has")]


class DiffView(View):
    """View of the differences between two traces: settings, cycles, SRAM and ops.

    The view's table has a row for each change and each differing setting.
    """

    traces: Annotated[tuple[str, str], Doc("the two traces")]
    same_program: Annotated[bool, Doc("whether both ran the same Program")]
    settings: Annotated[tuple[Setting, ...], Doc("settings that differ")]
    changes: Annotated[Mapping[str, list[Change]], Doc("changes by phase: of all prompts, and of a mean decoded token")]
    sram: Annotated[tuple[Change, ...], Doc("changes of the SRAM by use on the fullest PE")]
    only: Annotated[UnsharedOps, Doc("ops that exist in only one of the runs")]

    def table_rows(self) -> list[dict[str, Any]]:
        """Return a row for each change and each differing setting, for output as CSV.

        The column ``phase`` is "" for changes of SRAM and for settings.
        """
        by_phase = [{"phase": phase, **change.to_dict()} for phase, rows in self.changes.items() for change in rows]
        sram = [{"phase": "", **change.to_dict()} for change in self.sram]
        settings = [{"phase": "", "kind": "setting", **setting.to_dict()} for setting in self.settings]
        return [*by_phase, *sram, *settings]


def read_diff(first: Trace, second: Trace, *, each_layer: bool = False) -> DiffView:
    """Return the differences between two traces.

    Args:
        first: The first trace.
        second: The second trace.
        each_layer: True to list the changes of every layer. False to combine layers with equal
            changes into one row.

    Raises:
        TraceError: One of the traces is damaged.
    """
    first_totals, second_totals = (read_totals(trace) for trace in (first, second))
    names = [{op.op for layer in totals.tree for op in layer.ops} for totals in (first_totals, second_totals)]
    sram = [
        [Amount("sram", use, "B", float(size)) for use, size in totals.run.sram.fullest_pe_bytes.items()]
        for totals in (first_totals, second_totals)
    ]
    first_settings = _settings(first_totals.run, complete=first.complete)
    second_settings = _settings(second_totals.run, complete=second.complete)
    by_phase = changes_by_phase(first_totals, second_totals, GROUPS)
    if not each_layer:
        by_phase = {phase: fold_changes(rows) for phase, rows in by_phase.items()}
    return DiffView(
        view="diff",
        complete=first.complete and second.complete,
        ending=first.ending or second.ending or None,
        traces=(str(first.path), str(second.path)),
        same_program=first_totals.run.program_digest == second_totals.run.program_digest,
        settings=tuple(_differences(first_settings, second_settings)),
        changes=by_phase,
        sram=tuple(changes(sram)),
        only=UnsharedOps(first=tuple(sorted(names[0] - names[1])), second=tuple(sorted(names[1] - names[0]))),
    )


def _settings(run: TracedRun, *, complete: bool) -> dict[str, object]:
    """Return the settings of a run: sizes, options, versions, and pass counts.

    The keys are the display names of the settings, such as ``prompt tokens``.
    """
    settings: dict[str, object] = {
        "model": run.model.name,
        "wafer": run.wafer.name,
        "wafers": run.system.wafers,
        "mesh": f"{run.wafer.rows}x{run.wafer.cols}",
        "clock_hz": run.wafer.clock_hz,
        "mapping": run.system.mapping,
        "regions": len(run.system.stages),
        "prompt tokens": run.prompt_tokens,
        "generated tokens": run.generated_tokens,
        "users": len(run.users),
        "seed": run.seed,
        "complete": complete,
    }
    settings |= {f"option {name}": value for name, value in run.options.items() if name not in settings}
    settings |= {f"version of {name}": value for name, value in run.versions.items()}
    passes = {phase: totals.passes for phase, totals in run.phases.items()}
    return settings | {f"{phase} passes": passes.get(phase, 0) for phase in PHASES}


def _differences(first: Mapping[str, object], second: Mapping[str, object]) -> list[Setting]:
    """Return the settings whose values differ between two runs.

    Args:
        first: Settings of the first run, keyed by name.
        second: Settings of the second run, keyed by name.
    """
    settings = [
        Setting(name=name, first=first.get(name, NOT_SET), second=second.get(name, NOT_SET))
        for name in dict.fromkeys([*first, *second])
    ]
    return [setting for setting in settings if setting.first != setting.second]
