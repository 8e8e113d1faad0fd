"""A run that Ctrl-C ends while it speaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from wse.studies.compile.choose import compile_program
from wse.studies.run.callbacks import RunCallbacks
from wse.studies.run.execute import execute
from wse.studies.run.prepare import PreparedRun


def interrupted_run(prepared: PreparedRun, trace: Path, *, heard: int) -> Path:
    """The unfinished trace of a run that is interrupted as soon as so many texts were heard of it."""
    texts: list[str] = []

    def stop(text: str) -> None:
        texts.append(text)
        if len(texts) == heard:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(prepared, compile_program(prepared), trace=trace, callbacks=RunCallbacks(on_text=stop))
    return trace.with_name(f"{trace.name}.partial")
