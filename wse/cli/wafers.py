"""``wse wafers``: the bundled wafers and software profiles."""

from __future__ import annotations

import sys
from typing import Annotated

from wse.cli import options as opt
from wse.request.option import Option


def wafers(
    name: Annotated[
        str | None,
        Option(positional=True, metavar="NAME|FILE", doc="Show every number of this wafer or software profile."),
    ] = None,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """List the bundled wafers and software profiles.

    With a name all numbers of that one, with their sources.

    Examples:

    \b
      wse wafers
      wse wafers wse2
    """
    from wse.report.as_json import as_json
    from wse.studies import bundled

    facts = bundled.wafers() if name is None else bundled.one(name)
    if json:
        sys.stdout.write(as_json(facts))
    elif name is None:
        bundled.print_wafers(facts, sys.stdout)
    else:
        bundled.print_one(facts, sys.stdout)
