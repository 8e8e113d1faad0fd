"""Error message for users whose KV caches do not fit on any layout, with remedies."""

from __future__ import annotations

import math
from dataclasses import replace

from wse.compiler.search.remedies import larger_mesh, max_wafer_count
from wse.errors import BadInput
from wse.reports.number_text import plural
from wse.studies.compile.capacity import wafers_by_bytes
from wse.studies.estimate.layouts.searches import max_users_with_room, may_add_wafers
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.results.operating_points import cached_tokens_text


def too_many_users(prepared_estimate: PreparedEstimate, room: int) -> BadInput:
    """Return an error that states the maximum number of users whose KV caches fit.

    Args:
        prepared_estimate: The request, which has a number of users.
        room: Number of users of one replica whose caches are known to fit on some layout.
    """
    p, users = prepared_estimate, prepared_estimate.request.serving.users or 0
    replicas = p.goal.replicas_for(room)
    room = max_users_with_room(p, room, math.ceil(users / replicas))
    wafers = plural(p.options.wafers, "wafer")
    wafers += "" if replicas == 1 else f" of each of {replicas:,} replicas"
    tokens = cached_tokens_text(p.tokens_per_user, p.options.prefix_tokens)
    caches = f"the KV caches of {plural(room, 'sequence')} of {tokens}"
    min_wafers = max(p.options.wafers + 1, wafers_by_bytes(p, math.ceil(users / replicas)))
    more_room = "more --replicas"
    if min_wafers <= p.spec.layer_count:  # each wafer has a layer at least
        by_bytes = f" (by bytes at least {min_wafers})" if min_wafers > p.options.wafers + 1 else ""
        more_room = f"more --wafers{by_bytes} or --replicas"
    smaller_batch = "a smaller --batch, " if (p.request.serving.batch or 1) > 1 else ""
    remedies = [f"{smaller_batch}{more_room}, or shorter --prompt-len and --new-tokens"]
    if mesh := _larger_mesh(p):
        remedies.insert(0, mesh)
    if room:
        remedies.insert(0, f"--users {replicas * room}")
    if may_add_wafers(p):  # --wafers auto
        wafers += f", and no number of wafers up to {max_wafer_count(p.spec)} has room for all"
    message = f"--users {users}: the roomiest layout found holds {caches} on {wafers}; give {', '.join(remedies)}"
    if not _has_draft(p):
        message += (
            f"; `wse compare {p.request.model} --users {users}` with the same other options finds wafers and replicas"
        )
    else:
        message += "; with drafts, fewer users may fit"
    return BadInput(message)


def _has_draft(prepared_estimate: PreparedEstimate) -> bool:
    """Return whether a request has draft tokens, whose memory remedies do not take into account."""
    request = prepared_estimate.request
    return request.draft is not None or request.drafts.draft_model is not None


def _larger_mesh(prepared_estimate: PreparedEstimate) -> str | None:
    """Return a phrase that suggests the smallest larger mesh with room for all users, or None.

    None is returned if no mesh has enough room, or if the request uses whole wafers, states its
    regions or has a draft. It is also returned if PEs are dead, because another mesh may have fewer
    live PEs.
    """
    p = prepared_estimate
    if p.meshes or p.options.listed or p.request.machine.mesh is None or _has_draft(p):
        return None
    options = replace(p.options, cache_tokens=p.options.cache_tokens_of(p.cached_users, p.options.context))
    return larger_mesh(p.spec, p.whole, p.wafer, p.software, options)
