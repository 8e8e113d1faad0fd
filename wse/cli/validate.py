"""``wse validate``: compares predictions with published measurements."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from wse.cli import options as opt
from wse.option import Option

if TYPE_CHECKING:
    from wse.studies.validate.tables import Listed


def validate(
    more_files: Annotated[list[str] | None, Option(positional=True, repeats=True, metavar="FILE.csv")] = None,
    data: Annotated[list[str] | None, Option(repeats=True, metavar="FILE.csv")] = None,
    rows: Annotated[str, Option(metavar="predicted|all|none")] = "none",
    page: Annotated[str | None, Option(metavar="FILE.md")] = None,
    csv: Annotated[str | None, Option(metavar="FILE.csv")] = None,
    capacity: Annotated[str, Option(metavar="report|refuse")] = "report",
    against: Annotated[str | None, Option(metavar="wavelet")] = None,
    leave_out: Annotated[bool, Option()] = False,  # noqa: FBT002
    json: opt.Json = False,  # noqa: FBT002
) -> None:
    """Predict published measurements, and report the errors.

    Each row is predicted separately. Rows without a prediction are counted with the reason. Each
    row names its machine, so there is no --wafer and no --set.

    A file of your own has the columns of a bundled file: waferllm_measured.csv for kernels and
    models of research code, wse_microbench.csv for collectives and single operations,
    gpu_baselines.csv for GPUs, or public_tokens_per_s.csv for services on wafers. The page
    docs/formats.md lists other columns, for the steps and parts of a run on a wafer.

    Examples:

    \b
      wse validate
      wse validate --rows predicted
      wse validate --page validation.md
      wse validate --against wavelet
      wse validate --leave-out --data gpu_baselines.csv

    Args:
        more_files: More files, in addition to that of --data.
        data: Files with measurements, or names of bundled ones. Default: all bundled ones.
        rows: Which rows to list one by one; totals are always shown.
        page: Also write a page of the results, with a plot in the same folder.
        csv: Also write every row with its prediction.
        capacity: What to do if the layers of a model do not all fit in SRAM: report it and predict
            its speed all the same, or refuse the model.
        against: Compare the fabric model with the wavelet reference, not with measurements.
        leave_out: Cross-validate: fit the constants of GPU stacks without one model or GPU at a
            time, and predict it. Takes minutes.
    """
    from wse.errors import BadInput
    from wse.studies.validate.study import check_listed

    files = [Path(file) for file in (*(data or ()), *(more_files or ()))]
    listed_rows = check_listed(rows)
    if against is not None:
        has_measurement_options = bool(files or page or csv or leave_out) or capacity != "report"
        _print_agreement(against, has_measurement_options=has_measurement_options, json=json)
        return
    if leave_out:
        if page or csv:
            raise BadInput("--leave-out fits anew and predicts parts of the rows: leave out --page and --csv")
        _print_cross_validation(files, json=json)
        return
    _print_errors(files, listed_rows, capacity=capacity, page=page, csv=csv, json=json)


def _print_errors(
    files: list[Path], listed_rows: Listed, *, capacity: str, page: str | None, csv: str | None, json: bool
) -> None:
    """Predict measurements and print the errors of the predictions.

    Args:
        files: Files with measurements.
        listed_rows: Rows to list one by one.
        capacity: Whether to report or to refuse models whose layers do not all fit in SRAM.
        page: File for a page of the results; None for no page.
        csv: File for all rows with their predictions; None for no file.
        json: Whether to print JSON.
    """
    from wse.reports.output_file import output_path
    from wse.reports.progress import PREDICTING, progress_on
    from wse.studies.validate.files import write_csv, write_page
    from wse.studies.validate.study import print_validation
    from wse.studies.validate.study import validate as study

    page_path = None if page is None else output_path("--page", page, suffix=".md", kind="a Markdown file")
    csv_path = None if csv is None else output_path("--csv", csv, suffix=".csv", kind="a CSV file")
    with progress_on(sys.stderr, PREDICTING) as on_progress:
        validation = study(files, capacity=capacity, on_progress=on_progress)
    if page_path is not None:
        write_page(validation, page_path)
    if csv_path is not None:
        write_csv(validation, csv_path)
    opt.print_result(validation, json=json, print_text=partial(print_validation, listed_rows=listed_rows))


def _print_agreement(reference: str, *, has_measurement_options: bool, json: bool) -> None:
    """Compare the fast timing model with a reference model, and print the agreement.

    Args:
        reference: Name of the reference model.
        has_measurement_options: Whether options are given that apply to measurements only.
        json: Whether to print JSON.
    """
    from wse.errors import BadInput
    from wse.reports.progress import VALIDATING, progress_on
    from wse.studies.validate.agreement.against_wavelet import agreement, check_reference

    check_reference(reference)
    if has_measurement_options:
        text = f"--against {reference} compares two models, no measurements: "
        raise BadInput(text + "leave out --data, --page, --csv, --capacity and --leave-out")
    with progress_on(sys.stderr, VALIDATING) as on_progress:
        result = agreement(on_progress)
    opt.print_result(result, json=json)


def _print_cross_validation(files: list[Path], *, json: bool) -> None:
    """Cross-validate the timing model of GPUs, and print the errors of its predictions.

    Each test omits the measurements of one model or GPU, fits the constants of serving stacks to
    the others, and predicts the omitted measurements.

    Args:
        files: Files with measurements.
        json: Whether to print JSON.
    """
    from wse.reports.progress import FITTING, progress_on
    from wse.studies.validate.study import leave_out

    with progress_on(sys.stderr, FITTING) as on_progress:
        result = leave_out(files, on_progress=on_progress)
    opt.print_result(result, json=json)
