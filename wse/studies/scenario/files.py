"""``wse scenario`` with the files that it writes: paths checked first, content written last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from wse.reports.output_file import page_path, picture_path, write_output
from wse.reports.progress import OnProgress
from wse.studies.scenario.page import scenario_as_html
from wse.studies.scenario.plot import scenario_as_png
from wse.studies.scenario.request import bundled_scenarios, read_scenario
from wse.studies.scenario.result import ScenarioResult, ScenariosResult, ScenarioSummary
from wse.studies.scenario.study import answer

_CHECKS: Final = {"--html": page_path, "--png": picture_path}
WRITERS: Final = {"--html": scenario_as_html, "--png": scenario_as_png}


def answer_to_files(
    source: str | Path | Mapping[str, Any],
    on_progress: OnProgress,
    *,
    html: str | Path | None,
    png: str | Path | None,
    jobs: int | None = None,
) -> ScenarioResult:
    """Answer a scenario, and write its page and its drawings.

    Raises:
        BadInput and its kinds: as of `wse.studies.scenario.study.answer`; or a path is empty, a folder or the
            scenario's own file, or its folder is missing.
        DoesNotFit: no combination can be.
    """
    inputs = [] if isinstance(source, Mapping) else [Path(source)]
    given = {"--html": html, "--png": png}
    paths = {
        option: _CHECKS[option](option, str(text), inputs=inputs) for option, text in given.items() if text is not None
    }
    result = answer(source, on_progress, jobs=jobs)
    for option, path in paths.items():
        write_output(option, path, WRITERS[option](result))
    return result


def scenarios() -> ScenariosResult:
    """Return the scenarios that come with wse: name, title and question of each."""
    every = map(read_scenario, bundled_scenarios())
    return ScenariosResult(
        scenarios=tuple(ScenarioSummary(name=one.name, title=one.title, question=one.question) for one in every)
    )
