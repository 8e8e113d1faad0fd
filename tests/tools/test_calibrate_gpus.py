"""Tests of the calibration of serving stacks: it changes only the fitted values in the files of the stacks."""

import tomllib
from types import ModuleType

import pytest

from wse.studies.validate.gpu_calibration import CALIBRATIONS


@pytest.mark.parametrize("stack", CALIBRATIONS)
def test_calibration_changes_only_fitted_values(script: ModuleType, stack: str) -> None:
    text = (script.STACKS / f"{stack}.toml").read_text(encoding="utf-8")
    keys = CALIBRATIONS[stack].keys
    before, after = tomllib.loads(text), tomllib.loads(script.with_values(text, dict.fromkeys(keys, 0.125)))
    for key in keys:
        name, _, generation = key.partition(".")
        old, new = (table[name][generation] if generation else table[name] for table in (before, after))
        assert new.pop("value") == 0.125
        assert old.pop("value") > 0
    assert after == before


def test_constant_without_a_line_is_a_bug(script: ModuleType) -> None:
    with pytest.raises(AssertionError, match="layer_s"):
        script.with_values("title = 'x'\n", {"layer_s": 1.0})
