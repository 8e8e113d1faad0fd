"""``wse run``: compiles and executes a model, prints the text, and shows where the cycles went."""

from __future__ import annotations

import sys

from wse.cli import options as opt
from wse.studies.run.request import RunRequest


def run(request: RunRequest, json: opt.Json = False) -> None:  # noqa: FBT002
    """Run a model on a virtual wafer.

    Without arguments, run the bundled model on a small wafer.

    Examples:

    \b
      wse run
      wse run --prompt "One day, a little fox" --new-tokens 64
      wse run --prompt "One day" --prompt "The little fox" --new-tokens 24
      wse run --temperature 0.8 --top-p 0.9 --repetition-penalty 1.1 --seed 7
      wse run --mesh 24x24 --mapping pipeline --wafers 2 --dtype float16
      wse run smollm2-135m --weights random:7 --new-tokens 8
      wse run --new-tokens 8 --wavelets --trace wavelets.h5
      wse run --new-tokens 8 --record activations=layers.0.*,head
    """
    from wse.reports.progress import COMPILING, GENERATING, STORING, ignore, progress_on
    from wse.reports.terminal import stream_text
    from wse.studies.run.answer import RunCallbacks
    from wse.studies.run.result import print_run
    from wse.studies.run.study import run as study

    # If the reader of stdout goes away, as `head` does, a run that writes files continues to its end.
    leaves_files = (
        request.tracing.trace is not None or request.profiling.profile or request.checkpoints.checkpoint is not None
    )
    with (
        progress_on(sys.stderr, STORING) as on_stored,
        progress_on(sys.stderr, COMPILING) as on_progress,
        progress_on(sys.stderr, GENERATING) as on_tokens,
        stream_text(sys.stdout) as on_text,
    ):
        callbacks = RunCallbacks(
            on_text=ignore if json else opt.ignore_closed_pipe(on_text) if leaves_files else on_text,
            on_warning=opt.warn,
            on_stored=on_stored,
            on_progress=on_progress,
            on_tokens=on_tokens,
        )
        result = study(request, callbacks)
    opt.print_result(result, json=json, print_text=print_run)
