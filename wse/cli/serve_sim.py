"""``wse serve-sim``: simulates requests that arrive over time and are served on wafers."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.option import Option
from wse.studies.serve_sim.request import ServeRequest


def serve_sim(
    request: ServeRequest,
    timeline: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    html: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Simulate the serving of requests over time: queue, TTFT, cost.

    The simulation is event-driven. The model is compiled for the machine to time its passes, but it
    is not executed. To connect real clients to the predicted machine, use wse serve.

    Examples:

    \b
      wse serve-sim story --mesh 24x24 --mapping region --prompt-len 64 --new-tokens 64
      wse serve-sim llama-3-8b --load 0.9 --length-cv 0.5 --ttft 100ms --tpot 1ms
      wse serve-sim llama-3-8b --batching static --max-users 8 --batch-wait 500ms
      wse serve-sim llama-3-8b --prefill own --fast-share 0.1 --timeline serve.json --html serve.html

    Args:
        timeline: Write a timeline that Perfetto opens, a .json file.
        html: Write one page with tables and the queue over time.
    """
    from wse.reports.progress import SERVING, progress_on
    from wse.studies.serve_sim.files import serve_to_files

    with progress_on(sys.stderr, SERVING) as on_progress:
        result = serve_to_files(request, on_progress, timeline=timeline, html=html)
    opt.print_result(result, json=json)
