"""The prose of the page on validation states the constants of the software profiles as they are."""

from __future__ import annotations

from importlib.resources import files

import pytest

from wse.hardware.load import load_software

CALIBRATED = (files("wse.studies.validate") / "page.md.j2").read_text(encoding="utf-8")
WSE2, WSE3 = (load_software("academic", generation) for generation in ("wse2", "wse3"))
TUNED, PRODUCTION = (load_software(name, "wse3") for name in ("tuned", "production"))


@pytest.mark.parametrize(
    "statement",
    [
        f"In the second version it is {TUNED.reduce_gap_cycles} cycles, as in the profile `tuned`",
        f"{WSE3.loop_cycles} cycles per iteration of the loop over k, and {WSE3.transfer_sync_cycles} per round",
        f"{WSE3.task_dispatch_cycles} per task of a step, {WSE3.reduce_gap_cycles} between operations",
        f"collective, {WSE3.relay_cycles} per relay.",
        f"{WSE2.relay_cycles} per relay on WSE-2, {WSE3.function_cycles} per element of SiLU and exp",
        f"{WSE3.mapped_issue_cycles} per vector of a mapped operation",
        f"The slowdown by bank conflicts, {WSE3.bank_conflict_ratio}, is a published measurement",
        f"{PRODUCTION.task_dispatch_cycles} cycles for the tasks of a step",
        f"{PRODUCTION.function_cycles} for exp, a square root or a reciprocal",
    ],
)
def test_a_constant_is_that_of_its_profile(statement: str) -> None:
    assert statement in " ".join(CALIBRATED.split())
