"""Options for the output files of a run: its trace, checkpoint and profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from wse.studies.options.option import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Options for a run's trace file: its path, and what to store besides cycles and tokens."""

    trace: Annotated[
        str | Path | None,
        Option(doc="File for the trace.", panel="Trace", metavar="PATH|none", none="none"),
    ] = "wse-run.h5"
    trace_policy: Annotated[
        str,
        Option(doc="What to do if the trace cannot be written any more.", panel="Trace", metavar="stop|continue"),
    ] = "stop"
    record: Annotated[
        str | None,
        Option(
            doc="Store the outputs of ops in the trace: of all ops, or of some, such as layers.*.attention,head.",
            panel="Trace",
            metavar="activations[=OP,...]",
        ),
    ] = None
    record_pe: Annotated[
        str | None,
        Option(
            doc="Store the bytes of a PE's buffers in the trace after each pass; separate several PEs by +.",
            panel="Trace",
            metavar="[WAFER:]ROW,COL",
        ),
    ] = None
    wavelets: Annotated[
        bool, Option(doc="Also simulate the last pass wavelet by wavelet, and trace every move.", panel="Trace")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Options for the checkpoint file, from which an interrupted run can resume."""

    checkpoint: Annotated[
        str | Path | None,
        Option(
            doc="Save the state of the run in FILE periodically; if FILE exists, resume from it.",
            panel="Output",
            metavar="FILE",
        ),
    ] = None
    checkpoint_every: Annotated[
        float,
        Option(doc="Time between two writes of --checkpoint, such as 5s.", panel="Output", metavar="TIME", unit="s"),
    ] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """Options for measuring how long the emulation itself takes on this computer."""

    profile: Annotated[
        bool,
        Option(doc="Also measure how long the emulation itself takes, by type of step, op and kernel.", panel="Output"),
    ] = False
    profile_output: Annotated[
        str | Path,
        Option(
            doc="With --profile: file for the flame graph, in the format of speedscope.", panel="Output", metavar="FILE"
        ),
    ] = "wse-profile.json"
