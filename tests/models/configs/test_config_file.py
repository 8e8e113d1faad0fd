"""Files that are no config, and configs of any values."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal
from tests.models.families.configs import LLAMA4, SPELLINGS, both
from tests.models.helpers import result_or_refusal
from wse.errors import BadInput, BadModel
from wse.models.configs.config import read_config
from wse.models.tensors.model_tensors import parameter_count


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        (b"{\n  ]", "not JSON at line 2, column 3 (Expecting property name enclosed in double quotes)"),
        (b"", "not JSON at line 1, column 1 (Expecting value)"),
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a": 1, "a": 2}', "the key 'a' is given twice"),
        (b'{"a": "\xff"}', "not JSON: byte 7 is not UTF-8"),
    ],
)
def test_text_that_is_not_json_is_placed(tmp_path: Path, text: bytes, tail: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text)
    assert refusal(BadModel, read_config, path) == f"{path}: {tail}; correct it or fetch the file again"


def test_a_list_and_deep_nesting_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]")
    assert refusal(BadModel, read_config, path) == (f"{path}: holds a JSON list, not an object; is it the right file?")
    path.write_text('{"a":' + "[" * 200_000)
    assert refusal(BadModel, read_config, path).startswith(f"{path}: nested too deeply")
    path.write_text('{"hidden_size": ' + "9" * 5000 + "}")
    assert refusal(BadModel, read_config, path).endswith("; correct it or fetch the file again")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


CONFIGS = [LLAMA4, *(config for name in SPELLINGS for config in both(name))]
TABLES = ("text_config", "rope_parameters", "rope_scaling")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_values_in_a_config_of_any_family_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    config = copy.deepcopy(data.draw(st.sampled_from(CONFIGS)))
    objects = [config, *(config[key] for key in TABLES if config.get(key))]
    changed = data.draw(st.sampled_from(objects))
    changed |= data.draw(st.dictionaries(st.sampled_from(sorted(changed)), JSON | st.integers(0, 9), max_size=3))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    spec = result_or_refusal(BadInput, read_config, path)
    if spec is not None:
        assert parameter_count(spec) > 0
