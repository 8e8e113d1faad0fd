"""Tests of the UnknownName message: it suggests the nearest known name or lists the known names."""

import pytest

from wse.errors import UnknownName

MODELS = ["llama-2-13b", "llama-3-8b", "llama-3.1-8b", "llama-3.1-70b", "story"]
NUMBERS = [*(f"wafer.number_{n}" for n in range(9)), "wafer.clock_hz", "software.loop_cycles", "batch"]


@pytest.mark.parametrize(
    ("name", "known", "nearest"),
    [
        ("llama-3.1-7b", MODELS, "llama-3.1-70b"),
        ("Storry", MODELS, "story"),
        ("Llama-3.1-8B-Instruct", [*MODELS, "llama-3.3-70b-instruct"], "llama-3.1-8b"),
        ("a100-40g", ["a100", "a100-40gb", "h100"], "a100-40gb"),
        ("--draft-modle", ["--draft", "--draft-model", "--model"], "--draft-model"),
        ("clock", NUMBERS, "wafer.clock_hz"),
        ("wafer.clok", NUMBERS, "wafer.clock_hz"),
        ("or", MODELS, ""),
    ],
)
def test_nearest_name_is_suggested(name: str, known: list[str], nearest: str) -> None:
    message = str(UnknownName("thing", name, known))
    assert (f"did you mean {nearest!r}?" if nearest else "'or': known: llama-2-13b") in message


def test_long_groups_are_abbreviated_except_the_named_one() -> None:
    assert str(UnknownName("number", "plum", NUMBERS)).endswith("known: batch, software.loop_cycles, wafer.… (10)")
    assert str(UnknownName("number", "wafer.plum", NUMBERS)).endswith(f"known: {', '.join(sorted(NUMBERS[:10]))}")
