"""``wse sweep``: estimates a grid of settings and writes one table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from wse.cli import options as opt
from wse.option import Option
from wse.studies.options import known_names
from wse.studies.options.engine import THIS_MACHINE, EngineChoice, check_engine

Columns = Annotated[
    str | None,
    Option(
        doc=f"Columns to print next to the axes: of {', '.join(known_names.sweep_columns())}, or of the table. "
        "Default: these without replicas. For speeds and costs with drafts, name columns of the "
        "table, such as drafts_tokens_per_s_per_user.",
        panel="Output",
        metavar="NAME,...",
    ),
]


def sweep(
    source: Annotated[str | None, Option(positional=True, metavar="[FILE.toml|MODEL]")] = None,
    sets: Annotated[list[str] | None, Option(flag="--set", repeats=True, metavar="FIELD=A,B,...")] = None,
    output: Annotated[str, Option(short="-o", metavar="FILE.csv|FILE.parquet")] = "wse-sweep.csv",
    jobs: Annotated[int | None, Option(panel="Machines")] = None,
    engine: EngineChoice = THIS_MACHINE,
    restart: Annotated[bool, Option()] = False,  # noqa: FBT002
    columns: Columns = None,
    sort: Annotated[str | None, Option(panel="Output", metavar="NAME", known_values=known_names.sweep_columns)] = None,
    top: Annotated[int | None, Option(panel="Output")] = None,
    png: Annotated[str | None, Option(panel="Output", metavar="FILE.png")] = None,
    x: Annotated[str | None, Option(panel="Output", metavar="AXIS")] = None,
    every_column: Annotated[bool, Option(panel="Output", flag="--all")] = False,  # noqa: FBT002
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Estimate every combination of some settings, as one table.

    The estimates run on all cores, and the table has a row for each combination. The axes and the
    main columns are printed. A value is marked if it is the best of its column over all settings.
    Finished rows are stored in FILE.partial: after Ctrl-C or a kill, the same command continues
    from there. A combination that cannot be estimated, such as a model that does not fit, is a row
    with an error. If there are only errors, the command fails. In a TOML file, a list is an axis:

    \b
      model = "story"
      batch = [1, 8]
      wafer.hop_cycles = [1, 2]

    Examples:

    \b
      wse sweep story --set mesh=16x16,20x20 --set wafers=1,2 --set prompt_len=16 --set new_tokens=16
      wse sweep story --set wafer.hop_cycles=1,2 --set mesh=24x24 --set prompt_len=16 --set new_tokens=8

    Args:
        source: A grid of settings, or the model that all settings share.
        sets: Values of a field, replacing those of the file: an option of `wse estimate` with
            underscores, or a number of a wafer or of software, such as wafer.hop_cycles. Give
            values that contain commas in the file. Repeatable; the last varies fastest.
        output: The table.
        jobs: Number of processes. Default: all cores, or a cluster's CPUs.
        restart: Discard the results of an earlier sweep of this table.
        sort: Sort by a column: best first, or smallest first; largest first with NAME:down.
        top: Maximum number of rows to print. Default: 20.
        png: Plot the printed columns over an axis.
        x: Horizontal axis of --png. Default: the axis with the most values.
        every_column: Also write grades and sources of the numbers to the table.
    """
    from wse.studies.sweep.request import read_grid, sweep_picture
    from wse.studies.sweep.shown import sweep_view
    from wse.studies.sweep.study import sweep as study
    from wse.studies.sweep.study import sweep_progress

    check_engine(engine)
    view = sweep_view(columns, sort, top)
    picture = sweep_picture(png, x)
    grid = read_grid(source, sets or [])
    with sweep_progress(sys.stderr) as on_progress:
        result = study(
            grid,
            Path(output),
            jobs=jobs,
            engine=engine,
            restart=restart,
            every_column=every_column,
            view=view,
            png=picture,
            x=x,
            on_progress=on_progress,
        )
    opt.print_result(result, json=json)
