"""Fit the constants of GPU serving stacks to measurements and write them into the stacks' files.

    python tools/calibrate_gpus.py ../shared/reference/gpu_baselines.csv
    python tools/calibrate_gpus.py ../shared/reference/gpu_baselines.csv --stack vllm --keys link_ratio,all_reduce_s

For each stack, the fitted constants and the errors of the fit are printed. Which constants are
fitted to which measurements is defined in `wse/studies/validate/gpu_calibration.py`. With
``--keys``, only the named constants are fitted, and the others stay as they are.

`wse validate --leave-out` cross-validates these fits.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wse.studies.validate.gpu_calibration import CALIBRATIONS, calibration_rows, fit, fit_rows, log_errors
from wse.studies.validate.measured.measurements import read

STACKS = Path(__file__).parents[1] / "wse" / "serving" / "gpus" / "stacks"


def with_values(text: str, constants: dict[str, float]) -> str:
    """Return the text of a stack's TOML file with new values, rounded to three significant digits.

    Args:
        text: Text of the file. Each constant is on its own line: ``KEY = { value = ...``.
        constants: New values by key. Every key must be in the file.
    """
    for key, value in constants.items():
        text, replaced = re.subn(
            rf"^({re.escape(key)} = \{{ value = )[^,]+", rf"\g<1>{value:.3g}", text, count=1, flags=re.MULTILINE
        )
        assert replaced, key
    return text


def main(file: Path, stacks: Sequence[str], keys: Sequence[str]) -> None:
    """Fit stacks to the measurements of a CSV file, update their TOML files, and print errors."""
    rows = fit_rows(read(file))
    for stack in stacks:
        fitted_rows = calibration_rows(stack, rows)
        constants = fit(fitted_rows, keys or CALIBRATIONS[stack].keys)
        path = STACKS / f"{stack}.toml"
        path.write_text(with_values(path.read_text(encoding="utf-8"), constants), encoding="utf-8")
        errors_pct = 100 * (np.exp(log_errors(fitted_rows, constants)) - 1)
        mean, bias = np.abs(errors_pct).mean(), errors_pct.mean()
        print(f"{stack}: {len(fitted_rows)} rows, mean error {mean:.1f} %, bias {bias:+.1f} %")
        print("  " + ", ".join(f"{key} {value:.3g}" for key, value in constants.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--stack", choices=CALIBRATIONS, action="append", help="Calibrate this stack; default: all.")
    parser.add_argument("--keys", default="", metavar="NAME,NAME", help="Fit only these constants.")
    options = parser.parse_args()
    main(options.file, options.stack or tuple(CALIBRATIONS), options.keys.split(",") if options.keys else ())
