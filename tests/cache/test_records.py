"""Tests of cached records: conversion to plain JSON values and back, refusal of wrong values, and content keys."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest

from wse.cache.content_key import code_version, content_key
from wse.cache.records import BadRecordError, cached, from_plain, to_plain
from wse.cache.store import DISABLED, FOLDER_VARIABLE


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True)
class Record:
    points: tuple[Point, ...]
    pair: tuple[int, str] | None
    sizes: Annotated[Mapping[int, float], "doc"]
    name: Literal["a", "b"]
    value: str | int | float
    inputs: Mapping[str, Any]
    memo: list[int] = field(default_factory=list, compare=False)


RECORD = Record((Point(1, 2), Point(3, inf)), (4, "c"), {5: 0.1}, "a", 6.0, {"wafers": [1, {"b": None}]}, [7])


def test_record_is_equal_after_json() -> None:
    plain = json.loads(json.dumps(to_plain(RECORD)))
    restored = from_plain(Record, plain)
    assert restored == RECORD
    assert (restored.memo, type(restored.points[0]), type(restored.points[0].y)) == ([], Point, int)
    assert to_plain(np.int64(3)) == 3


@pytest.mark.parametrize(
    "values",
    [
        None,
        {},
        [],
        [[], None, [], "a", {}],
        [[], None, [], "c", 1, {}],
        [[[1]], None, [], "a", 1, {}],
        [[[True, 2.0]], None, [], "a", 1, {}],
        [[["1", 2.0]], None, [], "a", 1, {}],
        [[], [4], [], "a", 1, {}],
        [[], None, [[5]], "a", 1, {}],
        [[], None, [5], "a", 1, {}],
        [[], None, {"5": 0.1}, "a", 1, {}],
        [[], None, [], "a", None, {}],
        [[], None, [], "a", 1, {}, []],
    ],
)
def test_values_of_wrong_types_are_refused(values: Any) -> None:
    with pytest.raises(BadRecordError):
        from_plain(Record, values)


def test_keys_differ_by_content_and_objects_of_users_have_no_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, DISABLED)
    assert content_key("kind", RECORD) is None
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    keys = [content_key(*inputs) for inputs in (("kind", 1), ("kind", 1.0), ("kind", "1"), ("other", 1), ("kind", [1]))]
    assert len({*keys}) == len(keys)
    assert content_key("kind", RECORD) == content_key(
        "kind", Record(*[getattr(RECORD, n) for n in Record.__match_args__[:6]])
    )
    assert content_key("kind", "mine.py:mine") is None
    assert content_key("kind", object()) is None
    assert len(code_version() or "") == 64


def test_cached_result_is_computed_once_and_replaces_a_wrong_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        return 7

    key = content_key("number")
    assert cached(key, str, lambda: "seven") == "seven"
    assert [cached(key, int, compute), cached(key, int, compute), cached(None, int, compute)] == [7, 7, 7]
    assert len(calls) == 2
