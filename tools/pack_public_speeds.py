"""Convert files of measurements to the tables of published speeds that are bundled with wse.

    python tools/pack_public_speeds.py ../shared/reference/public_tokens_per_s.csv \\
        ../shared/reference/gpu_baselines.csv

The first file contains speeds of inference services, the second one speeds of benchmarks on GPUs.
The result is written to ``wse/data/public_speeds.csv`` and ``wse/data/gpu_speeds.csv``.

- **Rows**: measurements of the generated tokens per second of one user, for models with a bundled
  configuration. Other measurements are skipped.
- **Prices**: the price that another row states for the same service and model. If the source
  states the rent of its GPUs and the throughput of a node instead, the price is chips x rent /
  throughput.
- **Benchmarks**: among rows with the same model, GPUs, users, bits per weight and drafts
  (speculative decoding), only the fastest is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from wse.reports.rows_csv import exact_csv
from wse.serving.cost import usd_per_million_tokens
from wse.studies.results.published import weight_bits
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.measured.models import configuration_of
from wse.studies.validate.measured.platforms import wafer_of
from wse.studies.validate.measured.terms import count, element_type, gpu_of

DATA: Final = Path(__file__).parents[1] / "wse" / "data"
SPEED, TPOT_MS, SYSTEM_SPEED = "output_tok_s_per_user", "tpot_ms", "system_output_tok_s"
RENT, NODE_RATE = "gpu_rent_usd_per_hr", "decode_tok_s_per_node"
PRICES: Final = ("price_out_usd_per_Mtok", "cost_usd_per_Mtok")
COLUMNS: Final = (
    *("configuration", "model", "system", "machine", "chips", "users", "weight_bits", "context"),
    *("tokens_per_s_per_user", "usd_per_million_tokens", "drafts", "by", "date", "source", "price_source"),
)
SAME_BENCHMARK: Final = ("configuration", "machine", "chips", "users", "weight_bits", "drafts")


def service_points(rows: Sequence[Measurement]) -> list[dict[str, str]]:
    """Return the rows of ``public_speeds.csv``, in the order of the measurements."""
    points = []
    for row in rows:
        name = configuration_of(row.text("model").replace("V3/R1", "V3"))
        if row.text("metric") != SPEED or row.measured is None or name is None:
            continue
        wafer = wafer_of(row)
        price, source = _price(row, rows)
        point = _point(row, name, row.measured)
        point |= {"machine": wafer.name if wafer is not None else gpu_of(row) or "", "price_source": source}
        points.append(point | {"usd_per_million_tokens": "" if price is None else f"{price:.4g}"})
    return points


def gpu_points(rows: Iterable[Measurement]) -> list[dict[str, str]]:
    """Return the rows of ``gpu_speeds.csv``: the fastest measurement of each benchmark.

    Measurements whose model, GPU, number of GPUs, number of users or element type is unknown are
    skipped.
    """
    fastest: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        name, speed = configuration_of(row.text("model")), _user_speed(row)
        if name is None or speed is None or gpu_of(row) is None or count(row.text("chips")) is None:
            continue
        point = _point(row, name, speed) | {"machine": gpu_of(row) or ""}
        point["system"] = ", ".join(text for text in (row.text("system"), row.text("framework")) if text)
        key = tuple(point[column] for column in SAME_BENCHMARK)
        known = fastest.get(key)
        if point["weight_bits"] and (known is None or speed > float(known["tokens_per_s_per_user"])):
            fastest[key] = point
    return list(fastest.values())


def text_of(points: Iterable[dict[str, str]]) -> str:
    """Return the text of a CSV file with these rows, which have the columns ``COLUMNS``."""
    return exact_csv(points, COLUMNS)


def _point(row: Measurement, configuration: str, speed: float) -> dict[str, str]:
    """Return a row of either file, with an empty price and machine.

    Args:
        row: The measurement.
        configuration: Name of the bundled model configuration.
        speed: Generated tokens per second of one user.
    """
    stated_type = element_type(row, configuration) if row.text("precision") else None
    return dict.fromkeys(COLUMNS, "") | {
        "configuration": configuration,
        "model": row.text("model"),
        "system": row.text("system"),
        "chips": row.text("chips"),
        "users": str(count(row.text("batch_or_concurrency")) or ""),
        "weight_bits": "" if stated_type is None else str(weight_bits(stated_type)),
        "context": row.text("context"),
        "tokens_per_s_per_user": f"{speed:g}",
        "drafts": _drafts(row.text("spec_decode")),
        "by": row.text("vendor_or_independent"),
        "date": row.text("date"),
        "source": row.text("source_url"),
    }


def _user_speed(row: Measurement) -> float | None:
    """Return the tokens per second of one user of a benchmark, or None if they are not stated.

    The throughput of the system is used only for runs with one user. With more users, it includes
    the time in which the prompts of other users are read.
    """
    users, metric, value = count(row.text("batch_or_concurrency")), row.text("metric"), row.measured
    if users is None or not value:
        return None
    if metric == TPOT_MS:
        return 1e3 / value
    return value if metric == SPEED or (metric == SYSTEM_SPEED and users == 1) else None


def _price(row: Measurement, rows: Sequence[Measurement]) -> tuple[float | None, str]:
    """Return the price of a service in USD per million tokens, and the address of its source.

    Args:
        row: Measurement of the service's speed.
        rows: All measurements, which may include prices.

    Returns:
        (None, "") if no price is known.
    """
    same = [m for m in rows if all(m.text(key) == row.text(key) for key in ("system", "model"))]
    stated = [m for m in same if m.text("metric") in PRICES and m.measured is not None]
    if stated:
        return stated[0].measured, stated[0].text("source_url")
    numbers = {m.text("metric"): m.measured for m in same if m.text("source_url") == row.text("source_url")}
    rent, rate = numbers.get(RENT), numbers.get(NODE_RATE)
    if rent is None or rate is None or not row.text("chips"):
        return None, ""
    return usd_per_million_tokens(int(row.text("chips")), rent, rate), row.text("source_url")


def _drafts(text: str) -> str:
    """Return whether a service uses speculative decoding: ``yes``, ``no`` or ``unknown``."""
    word = text.split(" ")[0]
    if word in ("", "not", "unknown"):
        return "unknown"
    return "no" if word == "no" else "yes"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("services", type=Path)
    parser.add_argument("gpus", type=Path)
    files = parser.parse_args()
    (DATA / "public_speeds.csv").write_text(text_of(service_points(read(files.services))), encoding="utf-8")
    (DATA / "gpu_speeds.csv").write_text(text_of(gpu_points(read(files.gpus))), encoding="utf-8")
