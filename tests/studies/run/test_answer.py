"""Tests of Answer: when it is finished, and whether it reports an end token."""

import pytest

from wse.studies.run.answer import Answer

END = 7


@pytest.mark.parametrize(
    ("tokens", "is_finished", "has_ended"), [([3], False, False), ([3, END], True, True), ([3, 4, 5], True, False)]
)
def test_answer_ends_at_an_end_token_or_at_the_maximum_length(
    tokens: list[int],
    is_finished: bool,  # noqa: FBT001
    has_ended: bool,  # noqa: FBT001
) -> None:
    answer = Answer((1, 2), (END,), 3, None, lambda _: None)
    for token in tokens:
        answer.add(token)
    assert answer.is_finished == is_finished
    assert answer.result().ended == has_ended
