"""Results of layout searches in the cache on disk, without the compiled Programs.

An entry has the trials of a search and the options and choices of the layouts that it compiled
fully. The compiler creates the same Programs again from these, which takes a fraction of the time
of a search. Requests that differ only in what follows from a layout, such as prices, ranges or
drafts, share an entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wse.cache.content_key import content_key
from wse.cache.records import BadRecordError, from_plain, to_plain
from wse.cache.store import read_entry, write_entry
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice, with_tiles
from wse.compiler.placeable import Placeable
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.search import Breadth, Candidate, Compilation
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trials.trial import Trial
from wse.errors import WseError

NOT_STORED: Final = ("cache", "routing", "placed_selections")
"""Options that an entry does not contain fully; those of the request are used instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSearch:
    """Result of a search for the best layout, in the form in which it is stored in the cache.

    The compiled Programs are not stored. They are compiled again from the layouts.

    Attributes:
        layouts: Options and choices of the fully compiled layouts, chosen layout first.
        trials, compiled_trials, rewrites, verify_rewrites: As in `Compilation`.
    """

    layouts: tuple[tuple[Options, Choice], ...]
    trials: tuple[Trial, ...]
    compiled_trials: tuple[tuple[Trial, float | None], ...]
    rewrites: tuple[RewriteTrial, ...]
    verify_rewrites: tuple[RewriteTrial, ...] | None


def search_key(placeable: Placeable, breadth: Breadth) -> str | None:
    """Return the cache key of a search for the best layout; None if it must not be cached.

    Searches on wafers with dead PEs are not cached, because their defects are not part of the key.
    """
    p = placeable
    if p.meshes:
        return None
    return content_key("layouts", p.spec, p.wafer, p.software, p.options, p.new_tokens, breadth)


def stored_search(key: str, placeable: Placeable) -> Compilation | None:
    """Read the result of a search from the cache, and compile its layouts again.

    Args:
        key: Cache key of the search.
        placeable: The request.

    Returns:
        The result. None if it is not in the cache, or if its layouts cannot be compiled for the
        request.
    """
    p = placeable
    try:
        record: StoredSearch = from_plain(StoredSearch, read_entry(key))
        not_stored = {name: getattr(p.options, name) for name in NOT_STORED}
        layouts = [(replace(options, **not_stored), choice) for options, choice in record.layouts]
        candidates = [
            Candidate(compile_choice(p.spec, p.wafer, p.software, *layout, WITHOUT_TILES), *layout)
            for layout in layouts
        ]
    except (BadRecordError, WseError):
        return None
    if not candidates:
        return None
    program, options, choice = candidates[0]
    return Compilation(
        program=with_tiles(program, p.spec, p.wafer, p.software, options, choice),
        options=options,
        choice=choice,
        trials=record.trials,
        compiled_trials=record.compiled_trials,
        rewrites=record.rewrites,
        verify_rewrites=record.verify_rewrites,
        candidates=tuple(candidates),
    )


def store_search(key: str, compilation: Compilation) -> None:
    """Store the result of a search in the cache.

    Args:
        key: Cache key of the search.
        compilation: The result. Its first candidate is the chosen layout.
    """
    record = StoredSearch(
        layouts=tuple((options, choice) for _, options, choice in compilation.candidates),
        trials=compilation.trials,
        compiled_trials=compilation.compiled_trials,
        rewrites=compilation.rewrites,
        verify_rewrites=compilation.verify_rewrites,
    )
    write_entry(key, to_plain(record))
