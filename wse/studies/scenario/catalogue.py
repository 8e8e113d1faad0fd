"""The scenarios that come with wse, as ``wse scenario`` without a name lists them."""

from __future__ import annotations

from wse.studies.scenario.read import bundled_scenarios, read_scenario
from wse.studies.scenario.result import ScenariosResult, ScenarioSummary


def scenarios() -> ScenariosResult:
    """Name, title and question of each."""
    forms = {name: read_scenario(name).form for name in bundled_scenarios()}
    return ScenariosResult(
        scenarios=tuple(
            ScenarioSummary(name=name, title=form.title, question=form.question) for name, form in forms.items()
        )
    )
