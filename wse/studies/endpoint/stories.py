"""Stories that the bundled model ``story`` writes, for answers with ``--text story``."""

from __future__ import annotations

from typing import Final

from wse.studies.options.option import make_request
from wse.studies.run.request import RunRequest
from wse.studies.run.study import run

MODEL: Final = "story"
OPENINGS: Final = (
    "Once upon a time, there was a little fox",
    "One day, a girl named Lily",
    "Tom and his dog",
    "There was a little boat",
    "Mia had a red ball",
    "The old man and the bird",
)
"""Prompts of the model, which are also the first words of the stories."""


def written_stories() -> list[str]:
    """Run the bundled model on an emulated wafer, and return a story for each of `OPENINGS`.

    All stories are generated in one batch, which takes a few seconds. Each ends when the model
    generates an end token, or after the default number of tokens of ``wse run``.
    """
    result = run(make_request(RunRequest, model=MODEL, prompt=OPENINGS, trace=None))
    return [answer.text or "" for answer in result.users]  # the model has a tokenizer, so a text is there
