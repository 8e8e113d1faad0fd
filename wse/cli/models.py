"""``wse models``: the bundled models."""

from __future__ import annotations

import sys

from wse.cli import options as opt


def models(json: opt.Json = False) -> None:  # noqa: FBT002
    """List the bundled models.

    Example:

    \b
      wse models
    """
    from wse.report.as_json import as_json
    from wse.studies import bundled

    facts = bundled.models()
    if json:
        sys.stdout.write(as_json(facts))
    else:
        bundled.print_models(facts, sys.stdout)
