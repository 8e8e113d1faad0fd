"""``sram.room`` of an estimate: the users whose caches choices of the compiler cost, and the cycles that these save.

Attention on few columns holds more on each of them, and codes that are unpacked at once take scratch. Both are chosen
because they save cycles of the request and fit; what they take is no room for further users' caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from wse.compiler.options import WIDE_UNPACKING, Choice
from wse.compiler.pipeline import compile_choice
from wse.errors import DoesNotFit
from wse.fabric.model import Fabric
from wse.program.program import Program
from wse.report.result import Doc, Result
from wse.report.table import Column, Table, number
from wse.report.terminal import count, short_number
from wse.request.prepare_estimate import PreparedEstimate
from wse.search.search import Compilation
from wse.search.tile_sizes import WITHOUT_TILES
from wse.studies.results.users import users_at

CHOSEN: Final = "as chosen"
ALL_COLUMNS: Final = "attention on all columns"
FEW_CODES: Final = "the fewest codes unpacked at once"


@dataclass(frozen=True, kw_only=True)
class RoomResult(Result):
    """The Program with other choices: those that hold less."""

    choice: Annotated[str, Doc("what is otherwise than chosen")]
    users: Annotated[int, Doc("users whose caches fit, with the context of the request")]
    token_cycles: Annotated[float, Doc("a generated token in the middle of the request", "cycles")]


def cache_room(prepared: PreparedEstimate, compilation: Compilation) -> tuple[RoomResult, ...] | None:
    """The Program as chosen, without each choice that costs a user, and without all where that leaves the most room.

    None where no choice costs a user.
    """
    choice = compilation.choice
    others = [(ALL_COLUMNS, replace(choice, attention_cols=0))] if choice.attention_cols else []
    others += [(FEW_CODES, _without_unpacking(choice))] if choice.uses(WIDE_UNPACKING) else []
    both = [(f"{ALL_COLUMNS}, {FEW_CODES}", replace(_without_unpacking(choice), attention_cols=0))]

    def rows_of(choices: Sequence[tuple[str, Choice]], above: int) -> list[RoomResult]:
        """Rows of choices with more users than ``above``."""
        programs = [(name, _program_of(prepared, compilation, other)) for name, other in choices]
        rows = [_row(prepared, name, program) for name, program in programs if program is not None]
        return [row for row in rows if row.users > above]

    if not others:
        return None
    chosen = _row(prepared, CHOSEN, compilation.program)
    rows = rows_of(others, chosen.users)
    rows += rows_of(both, max(row.users for row in rows)) if rows and len(others) > 1 else []
    return (chosen, *rows) if rows else None


def _without_unpacking(choice: Choice) -> Choice:
    of_phases = [
        None if rewrites is None else tuple(one for one in rewrites if one[0] != WIDE_UNPACKING)
        for rewrites in (choice.rewrites, choice.verify_rewrites)
    ]
    return replace(choice, rewrites=of_phases[0] or (), verify_rewrites=of_phases[1])


def _program_of(prepared: PreparedEstimate, compilation: Compilation, choice: Choice) -> Program | None:
    """The Program of another choice; None where buffers or colours find no room with it."""
    p = prepared
    try:
        return compile_choice(p.spec, p.wafer, p.software, compilation.options, choice, WITHOUT_TILES)
    except DoesNotFit:
        return None


def _row(prepared: PreparedEstimate, name: str, program: Program) -> RoomResult:
    fabric = Fabric(program, prepared.wafer, prepared.software, prepared.meshes)
    cycles = fabric.decode_cost(*prepared.middle_context).cycles
    return RoomResult(choice=name, users=users_at(program, program.context), token_cycles=cycles)


def room_table(room: tuple[RoomResult, ...], context: int) -> Table:
    """The users of the choices beside the cycles of a token."""
    columns = (
        Column(key="choice", title="choice", wraps=True),
        number("users", "users", count),
        number("token_cycles", "cycles a token", short_number),
    )
    note = f"users of {count(context)} tokens; a longer --context keeps room for more"
    return Table(columns=columns, rows=room, title="Room for caches that speed takes", note=note)
