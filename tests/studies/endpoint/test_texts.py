"""Tests of the texts of ``wse serve``: tokens of prompts, ends of answers, text files, and bundled stories."""

from pathlib import Path

import pytest

from wse.errors import BadInput
from wse.studies.endpoint import texts as texts_module
from wse.studies.endpoint.texts import OPENINGS, answer_text, read_texts, token_texts
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.request import RunRequest
from wse.studies.run.study import run

TOKENS = token_texts("The quick brown fox.")


def test_token_is_four_characters_or_one_id() -> None:
    assert TOKENS == ["The ", "quic", "k br", "own ", "fox."]
    assert token_texts("12345") == ["1234", "5"]
    assert token_texts([7, 42]) == [" 7", " 42"]


@pytest.mark.parametrize(
    ("max_tokens", "ignore_end", "stop_texts", "text", "tokens", "reason"),
    [
        (None, False, [], "The quick brown fox.", 5, "stop"),
        (8, False, [], "The quick brown fox.", 5, "stop"),
        (5, False, [], "The quick brown fox.", 5, "length"),
        (3, False, [], "The quick br", 3, "length"),
        (7, True, [], "The quick brown fox.The quic", 7, "length"),
        (None, False, ["brown", "fox"], "The quick ", 4, "stop"),
        (None, False, ["The"], "", 1, "stop"),
        (2, False, ["brown"], "The quic", 2, "length"),
        (None, False, ["quick brown", "quick"], "The ", 3, "stop"),
        (None, False, ["quick", "quick brown"], "The ", 3, "stop"),
        (None, False, ["quick brown", "ck"], "The qui", 3, "stop"),
        (None, False, ["own", "brown"], "The quick ", 4, "stop"),
    ],
)
def test_answer_ends_at_max_tokens_end_of_text_or_stop_text(
    *, max_tokens: int | None, ignore_end: bool, stop_texts: list[str], text: str, tokens: int, reason: str
) -> None:
    answer = answer_text(TOKENS, max_tokens, ignore_end=ignore_end, stop_texts=stop_texts)
    assert ("".join(answer.pieces), len(answer.pieces), answer.finish_reason) == (text, tokens, reason)


def test_invalid_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("A story", "utf-8")
    assert read_texts(str(path)) == [["A st", "ory"]]
    path.write_bytes(b"\xff")
    with pytest.raises(BadInput, match="UTF-8"):
        read_texts(str(path))
    path.write_bytes(b"")
    with pytest.raises(BadInput, match="empty"):
        read_texts(str(path))


def test_stories_are_generated_by_the_bundled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    # two short stories are enough, because the others are generated in the same way
    monkeypatch.setattr(texts_module, "OPENINGS", OPENINGS[:2])
    short = {"new_tokens": 8, "mesh": "8x24", "mapping": "region", "schedule": "baseline"}
    monkeypatch.setattr(texts_module, "run", lambda request: run(replace_options(request, **short)))
    texts = read_texts("story")
    assert texts is not None
    stories = ["".join(tokens) for tokens in texts]
    assert all(story.startswith(opening) for story, opening in zip(stories, OPENINGS[:2], strict=True))
    assert stories[0] == run(make_request(RunRequest, prompt=OPENINGS[0], trace=None, **short)).text
