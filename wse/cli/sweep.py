"""``wse sweep``: a grid of estimates as one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from wse.cli import options as opt
from wse.studies.options import known_names
from wse.studies.options.engine import LOCAL, EngineChoice, EngineName, RayAddress, check_engine
from wse.studies.options.option import Option


def sweep(
    source: Annotated[
        str | None,
        Option(
            positional=True,
            metavar="[FILE.toml|MODEL]",
            doc="A grid of settings, or the model that all settings share.",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        Option(
            flag="--set",
            repeats=True,
            metavar="FIELD=A,B,...",
            doc="Values of a field, in place of the file's: an option of `wse estimate` with underscores, or a number "
            "of a wafer or of software, such as wafer.hop_cycles. As often as wanted; the last varies fastest.",
        ),
    ] = None,
    output: Annotated[str, Option(short="-o", metavar="FILE.csv|FILE.parquet", doc="The table.")] = "wse-sweep.csv",
    jobs: Annotated[
        int | None,
        Option(metavar="N", doc="Processes. Default: all cores, or a cluster's CPUs.", panel="Machines"),
    ] = None,
    engine: EngineName = LOCAL,
    ray_address: RayAddress = None,
    restart: Annotated[  # noqa: FBT002
        bool, Option(doc="Drop what an earlier sweep of this table has done.")
    ] = False,
    columns: Annotated[
        str | None,
        Option(
            doc=f"Columns to print beside the axes: of {', '.join(known_names.sweep_columns())}, or of the table. "
            "Default: these.",
            panel="Output",
            metavar="NAME,...",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        Option(
            doc="Print the best of a column first, or the least; the most with NAME:down.",
            panel="Output",
            metavar="NAME",
            known_values=known_names.sweep_columns,
        ),
    ] = None,
    top: Annotated[int | None, Option(doc="The most rows to print. Default: 20.", panel="Output", metavar="N")] = None,
    png: Annotated[
        str | None, Option(doc="Draw it: what is printed over an axis.", panel="Output", metavar="FILE.png")
    ] = None,
    x: Annotated[
        str | None,
        Option(
            doc="The axis that --png has across. Default: the one with the most values.", panel="Output", metavar="AXIS"
        ),
    ] = None,
    every_column: Annotated[  # noqa: FBT002
        bool, Option(flag="--all", doc="The table has grades and what numbers rest on, in words, too.", panel="Output")
    ] = False,
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Estimate every combination of some settings, as one table.

    On all cores, with a row for each combination; the axes and eight columns are printed, the best of each marked. What
    is done is kept in FILE.partial: after Ctrl-C or a kill the same command goes on from there. A setting that cannot
    be estimated, such as a model that does not fit, is a row with an error; where all are, that is an error of the
    command. In a TOML file a list is an axis:

    \b
      model = "story"
      batch = [1, 8]
      wafer.hop_cycles = [1, 2]

    Examples:

    \b
      wse sweep story --set mesh=16x16,20x20 --set wafers=1,2 --set prompt_len=16 --set new_tokens=16
      wse sweep story --set wafer.hop_cycles=1,2 --set mesh=24x24 --set prompt_len=16 --set new_tokens=8
    """
    from wse.studies.sweep.progress import sweep_progress
    from wse.studies.sweep.request import read_grid, sweep_picture
    from wse.studies.sweep.shown import sweep_view
    from wse.studies.sweep.study import sweep as study

    choice = EngineChoice(engine, ray_address)
    check_engine(choice)
    view = sweep_view(columns, sort, top)
    picture = sweep_picture(png, x)
    grid = read_grid(source, sets or [])
    with sweep_progress(sys.stderr, len(grid)) as on_row:
        result = study(
            grid,
            Path(output),
            jobs=jobs,
            engine=choice,
            restart=restart,
            every_column=every_column,
            view=view,
            picture=picture,
            on_row=on_row,
        )
    opt.print_result(result, json=json)
