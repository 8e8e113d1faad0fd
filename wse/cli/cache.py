"""``wse cache``: shows or deletes the answers that earlier commands have kept on disk."""

from __future__ import annotations

from typing import Annotated

from wse.cli import options as opt
from wse.option import Option


def cache(
    action: Annotated[str, Option(positional=True, metavar="info|clear")] = "info",
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Show or delete the cached answers of earlier commands.

    Commands that search for layouts keep their results, so that the same or a related question is
    answered faster. The folder is $WSE_CACHE, or wse in $XDG_CACHE_HOME or ~/.cache.
    WSE_CACHE=none disables the cache for all commands, --no-cache for one.

    Examples:

    \b
      wse cache
      wse cache clear

    Args:
        action: Show the folder and its size (default), or delete all entries.
    """
    from wse.errors import UnknownName
    from wse.studies.cache_result import clear_cache, show_cache

    actions = {"info": show_cache, "clear": clear_cache}
    if action not in actions:
        raise UnknownName("action", action, actions)
    opt.print_result(actions[action](), json=json)
