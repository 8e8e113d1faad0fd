"""``wse mappings``: the bundled mappings."""

from __future__ import annotations

import sys

from wse.cli import options as opt


def mappings(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled mappings.

    Example:

    \b
      wse mappings
    """
    from wse.report.as_json import as_json
    from wse.studies import bundled

    facts = bundled.mappings()
    if json:
        sys.stdout.write(as_json(facts))
    else:
        bundled.print_mappings(facts, sys.stdout)
