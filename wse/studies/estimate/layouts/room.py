"""``sram.room`` of an estimate: choices that save cycles but leave less room for KV caches.

Attention on few columns stores more data on each of these columns. Unpacking many codes of
quantised weights at once needs scratch memory. Both save cycles, but the SRAM that they need is not
available for additional KV caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from wse.reports.number_text import count, short_number
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.studies.results.phases import mean_token_cycles
from wse.studies.results.sram import users_at

if TYPE_CHECKING:
    from wse.program.program import Program
    from wse.studies.estimate.layouts.choose_layout import ChosenLayout
    from wse.studies.estimate.prepare import PreparedEstimate

CHOSEN: Final = "as chosen"
"""Name of the row with the compiler's own choices."""


class RoomResult(Result):
    """Number of users whose KV caches fit on a variant of a layout, and cycles per token.

    The variants are the layout as chosen, and slower versions of it that need less SRAM.
    """

    choice: Annotated[str, Doc("the choice that differs from that of the compiler")]
    users: Annotated[int, Doc("users whose KV caches fit, with the context of the request")]
    token_cycles: Annotated[float, Doc("a generated token, averaged over the request", "cycles")]


def cache_room(layout: ChosenLayout) -> tuple[RoomResult, ...] | None:
    """Compare a chosen layout with variants that can hold the KV caches of more users.

    Returns:
        One record for the layout as chosen and one for each variant with room for more users. None
        if there is no such variant.
    """
    chosen_row = _row(layout.prepared, CHOSEN, layout.compilation.program)
    rows = [_row(layout.prepared, name, candidate.program) for name, candidate in layout.variants]
    roomier_rows = [row for row in rows if row.users > chosen_row.users]
    return (chosen_row, *roomier_rows) if roomier_rows else None


def _row(prepared_estimate: PreparedEstimate, name: str, program: Program) -> RoomResult:
    """Create a record with the number of users that fit and the cycles per token.

    Args:
        prepared_estimate: The request.
        name: Description of what the compiler did differently in this variant.
        program: The compiled variant.
    """
    from wse.backends.fabric.model import Fabric  # slow to load, and not needed to read a result

    fabric = Fabric(program, prepared_estimate.wafer, prepared_estimate.software, prepared_estimate.meshes)
    users, cycles = users_at(program, program.context), mean_token_cycles(fabric, prepared_estimate)
    return RoomResult(choice=name, users=users, token_cycles=cycles)


def room_table(room: tuple[RoomResult, ...], context: int) -> Table:
    """Return a table with the users that fit and the cycles per token for each variant.

    Args:
        room: The layout as chosen, and its variants.
        context: Context length per user in tokens, for the note.
    """
    columns = (
        Column(key="choice", title="choice", wraps=True),
        number("users", "users", count),
        number("token_cycles", "cycles", short_number),
    )
    note = (
        f"users: those whose KV caches of {count(context)} tokens fit; cycles: mean of a generated token; --users N or "
        "--objective throughput chooses a layout for many users"
    )
    return Table(columns=columns, rows=room, title="Variants with more room for KV caches", note=note)
