"""The recorder of a run, and what to do if the trace can no longer be written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from wse.errors import UnknownName
from wse.tracing.record.run import RunRecorder
from wse_traces.errors import TraceError

STOP: Final = "stop"
CONTINUE: Final = "continue"
POLICIES: Final = (STOP, CONTINUE)
"""Policies for a run whose trace cannot be written: stop the run, or continue without a trace."""

P = ParamSpec("P")
T = TypeVar("T")


def check_policy(policy: str) -> None:
    """Raise UnknownName if a value of ``--trace-policy`` is not one of ``POLICIES``."""
    if policy not in POLICIES:
        raise UnknownName("trace policy", policy, POLICIES, place="--trace-policy")


class TraceKeeper:
    """Context manager for the recorder of a run, which handles errors in writing the trace.

    Depending on the policy, a write error stops the run, or the run continues without a trace.

    Attributes:
        recorder: The recorder, or None without a trace or after a write error.
        lost: Entries for the run's report about a lost trace. Empty if there was no write error.
    """

    def __init__(
        self, open_recorder: Callable[[], RunRecorder] | None, policy: str, on_warning: Callable[[str], None]
    ) -> None:
        """Open the recorder.

        Args:
            open_recorder: Function that opens the recorder, or None to run without a trace.
            policy: What to do if the trace cannot be written, one of ``POLICIES``.
            on_warning: Function called with the reason when the run continues without a trace.

        Raises:
            TraceError: The trace cannot be opened, and the policy is to stop.
        """
        self.recorder: RunRecorder | None = None
        self.lost: dict[str, Any] = {}
        self._policy, self._on_warning = policy, on_warning
        if open_recorder is not None:
            try:
                self.recorder = open_recorder()
            except TraceError as error:
                self._go_on_without(error)

    def write(self, method: Callable[Concatenate[RunRecorder, P], T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a method of the recorder, such as ``RunRecorder.add_token``; return its result.

        Without a recorder, nothing is called and None is returned.

        Raises:
            TraceError: The trace cannot be written, and the policy is to stop.
        """
        if self.recorder is None:
            return None
        try:
            return method(self.recorder, *args, **kwargs)
        except TraceError as error:
            self._go_on_without(error)
            return None

    def _go_on_without(self, error: TraceError) -> None:
        """Handle a write error according to the policy: raise it, or close the trace and warn."""
        if self._policy == STOP:
            raise error
        recorder, self.recorder = self.recorder, None
        self.lost = {"trace_error": str(error)}
        if recorder is not None:
            with suppress(TraceError):  # the same error again
                recorder.writer.close(complete=False)
            self.lost["trace"] = str(recorder.writer.path)
        self._on_warning(f"{error}; the run continues without a trace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.write(RunRecorder.__exit__, None, None, None)
        elif self.recorder is not None:
            self.recorder.__exit__(kind, error, trace)
