"""Tests of recorded outputs: differences are found, times are left out, and each command has its own file."""

from pathlib import Path
from types import ModuleType


def test_difference_is_reported_with_its_place(script: ModuleType) -> None:
    before = {"rows": [{"users": 1, "cost": 2.0}], "gone": 1}
    after = {"rows": [{"users": 1, "cost": 2.5}], "new": 2}
    assert [*script.differences(before, before)] == []
    assert [place.partition(":")[0] for place in script.differences(before, after)] == ["rows[0].cost", "gone", "new"]
    assert [*script.differences([1], [1, 2])] == [": [1] before, [1, 2] now"]


def test_times_on_this_computer_are_left_out(script: ModuleType) -> None:
    assert script.steady({"rows": [{"users": 1, "wall_s": 3.0}]}) == {"rows": [{"users": 1}]}


def test_each_command_has_a_file_of_its_own(script: ModuleType) -> None:
    commands = [*script.commands()]
    assert len(commands) >= 60
    assert len({script.file_of(Path(), command) for command in commands}) == len(commands)
