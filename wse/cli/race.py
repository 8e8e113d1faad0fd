"""``wse race``: the same answer at the pace of several machines."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.request.option import Option
from wse.request.race_request import RaceRequest


def race(
    request: RaceRequest,
    html: Annotated[str | None, Option(doc="Write the race as one page.", panel="Output", metavar="FILE")] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Watch the same answer come from wafers and from GPUs.

    Side by side, each at its predicted pace: way, queue, prompt, first token, and the steps in which tokens come.

    Examples:

    \b
      wse race llama-3.1-70b --gpu h200 --gpus 8 --stack trtllm --dtype fp8
      wse race llama-3-8b --gpus 1 --users 32 --speed 0.1
      wse race llama-3-8b --gpus 1 --load 0.8
      wse race llama-3-8b --gpus 1 --html race.html
    """
    from rich.console import Console

    from wse.comparison.race.files import race_to_files
    from wse.comparison.race.show import show
    from wse.comparison.race.text import answer_pieces
    from wse.report.progress import ESTIMATING, progress_on

    with progress_on(sys.stderr, ESTIMATING) as on_progress:
        result = race_to_files(request, on_progress, html=html)
    if not json and sys.stdout.isatty():
        show(result, answer_pieces(request.text), Console(), request.speed)
    opt.print_result(result, json=json)
