"""Every setting is given out once, and those that are compiled alike go to one worker as long as others have work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.comparison.sweep.conftest import axes
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.workers.pool import Queue


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.data())
def test_every_setting_once(batches: int, tokens: int, workers: int, data: st.DataObject) -> None:
    grid = axes(batch=batches, new_tokens=tokens)
    queue = Queue(grid.groups(range(len(grid))))
    given_out: list[int] = []
    failed: set[int] = set()
    while (worker := data.draw(st.integers(0, workers - 1))) is not None:
        setting = queue.next(worker)
        if setting is None:
            break
        if setting not in failed and data.draw(st.booleans()):
            failed.add(setting)
            queue.retry(worker, setting)
        else:
            given_out.append(setting)
    assert sorted(given_out) == list(range(len(grid)))


def test_groups_are_alike_but_for_numbers_of_machines_and_new_tokens() -> None:
    two = (1, 2)
    grid = Grid((Axis("new_tokens", two), Axis("batch", two), Axis("wafer.hop_cycles", two), Axis("context", two)))
    found = grid.groups(range(len(grid)))
    assert found == [[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]


def test_worker_keeps_its_group_and_then_takes_half_of_the_longest() -> None:
    queue = Queue([[0, 1, 2, 3, 4, 5], [6]])
    assert [queue.next(0), queue.next(1), queue.next(0)] == [0, 6, 1]
    assert [queue.next(1), queue.next(0), queue.next(1)] == [4, 2, 5]
    assert [queue.next(1), queue.next(0), queue.next(1)] == [3, None, None]
