"""RunCallbacks: functions that a run calls to report text, warnings and progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.reports.progress import OnProgress, ignore
from wse.studies.run.answer import OnText


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCallbacks:
    """Callbacks of a run. By default, they do nothing.

    Attributes:
        on_text: Called with the prompt text and then with each piece of generated text, if there is
            only one prompt.
        on_warning: Called with a warning, for example that compiled kernels cannot be cached or
            that an existing trace is replaced. The run continues.
        on_stored: Called with (elements stored, total, name of the last tile) while weights are
            stored in emulated SRAM.
        on_progress: Called with (kernels compiled, total, name) while kernels compile.
        on_tokens: Called with (tokens read and generated, maximum, "") if no text is streamed.
    """

    on_text: OnText = ignore
    on_warning: Callable[[str], None] = ignore
    on_stored: OnProgress = ignore
    on_progress: OnProgress = ignore
    on_tokens: OnProgress = ignore


SILENT = RunCallbacks()
"""Callbacks that do nothing."""
