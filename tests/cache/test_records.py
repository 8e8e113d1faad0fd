"""Records as plain values, and values from a hostile file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest

from wse.cache.cached import cached
from wse.cache.content_key import code_version, content_key
from wse.cache.records import BadRecordError, from_plain, to_plain
from wse.cache.store import DISABLED, FOLDER_VARIABLE


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Whole:
    points: tuple[Point, ...]
    pair: tuple[int, str] | None
    sizes: Annotated[Mapping[int, float], "doc"]
    name: Literal["a", "b"]
    value: str | int | float
    memo: list[int] = field(default_factory=list, compare=False)


WHOLE = Whole((Point(1, 2), Point(3, inf)), (4, "c"), {5: 0.1}, "a", 6.0, [7])


def test_a_record_is_the_same_after_json() -> None:
    plain = json.loads(json.dumps(to_plain(WHOLE)))
    again = from_plain(Whole, plain)
    assert again == WHOLE
    assert (again.memo, type(again.points[0]), type(again.points[0].y)) == ([], Point, int)
    assert to_plain(np.int64(3)) == 3


@pytest.mark.parametrize(
    "values",
    [
        None,
        {},
        [],
        [[], None, [], "a"],
        [[], None, [], "c", 1],
        [[[1]], None, [], "a", 1],
        [[[True, 2.0]], None, [], "a", 1],
        [[["1", 2.0]], None, [], "a", 1],
        [[], [4], [], "a", 1],
        [[], None, [[5]], "a", 1],
        [[], None, [5], "a", 1],
        [[], None, {}, "a", 1],
        [[], None, [], "a", None],
        [[], None, [], "a", 1, []],
    ],
)
def test_values_of_another_type_are_refused(values: Any) -> None:
    with pytest.raises(BadRecordError):
        from_plain(Whole, values)


def test_keys_differ_by_content_and_python_files_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, DISABLED)
    assert content_key("kind", WHOLE) is None
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    keys = [content_key(*inputs) for inputs in (("kind", 1), ("kind", 1.0), ("kind", "1"), ("other", 1), ("kind", [1]))]
    assert len({*keys}) == len(keys)
    assert content_key("kind", WHOLE) == content_key(
        "kind", Whole(*[getattr(WHOLE, n) for n in Whole.__match_args__[:5]])
    )
    assert content_key("kind", "mine.py:mine") is None
    assert content_key("kind", object()) is None
    assert len(code_version() or "") == 64


def test_a_result_is_computed_once_and_a_wrong_entry_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        return 7

    key = content_key("number")
    assert cached(key, str, lambda: "seven") == "seven"
    assert [cached(key, int, compute), cached(key, int, compute), cached(None, int, compute)] == [7, 7, 7]
    assert len(calls) == 2
