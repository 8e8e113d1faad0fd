"""``wse scenario``: checks which settings are consistent with published figures."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from wse.cli import options as opt
from wse.option import Option
from wse.studies.options import known_names


def scenario(
    name: Annotated[
        str | None, Option(positional=True, metavar="NAME|FILE", known_values=known_names.scenarios)
    ] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    html: Annotated[str | None, Option(panel="Output", metavar="FILE")] = None,
    price: opt.Price = None,
    detail: Annotated[bool, Option(panel="Output")] = False,  # noqa: FBT002
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Find the settings that agree with published figures.

    A scenario file lists models, element types, wafers or GPUs, drafts and users. Show the result
    of each combination, and which figure rules it out.

    Examples:

    \b
      wse scenario
      wse scenario fast-mode
      wse scenario fast-mode --html fast-mode.html --png fast-mode.png

    Args:
        name: A bundled scenario, or a TOML file. Without it, list the bundled ones.
        png: Write its drawings as an image.
        html: Write one page with tables and drawings.
        price: USD per hour of one wafer (`wafer`, or a name of `wse wafers`) or one GPU (a name of
            `wse gpus`). The price is exact: it has no range. It overrides the table [prices] of the
            file.
        detail: Also list all combinations, with each figure, and assumptions.
    """
    from wse.errors import BadInput
    from wse.reports.progress import ANSWERING, progress_on
    from wse.studies.scenario.files import answer_to_files, print_scenario, scenarios

    if name is None:
        for option, text, aim in (("--png", png, "draw"), ("--html", html, "draw"), ("--price", price, "price")):
            if text is not None:
                raise BadInput(f"{option} {text}: there is no scenario to {aim}; give a NAME or FILE")
        opt.print_result(scenarios(), json=json, detail=detail)
        return
    with progress_on(sys.stderr, ANSWERING) as on_progress:
        result = answer_to_files(name, on_progress, html=html, png=png, price=price)
    opt.print_result(result, json=json, print_text=partial(print_scenario, detail=detail))
