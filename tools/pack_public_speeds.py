"""Write the published speeds that come with wse: of a file of serving speeds, the rows with tokens a second of a user.

    python tools/pack_public_speeds.py ../shared/reference/public_tokens_per_s.csv

A row of a model that comes with wse, by its layers, becomes a point. It has a price where the same service of the same
model names one: dollars of a million generated tokens; or, of a source that states its rent and the rate of a node,
chips x rent / rate. What a model predicts is left out.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from wse.serving.cost import usd_per_million_tokens
from wse.validation.measured.measurements import Measurement, read
from wse.validation.measured.shapes import configuration_of

PACKED: Final = Path(__file__).parents[1] / "wse" / "data" / "public_speeds.csv"
SPEED, RENT, NODE_RATE = "output_tok_s_per_user", "gpu_rent_usd_per_hr", "decode_tok_s_per_node"
PRICES: Final = ("price_out_usd_per_Mtok", "cost_usd_per_Mtok")
COLUMNS: Final = (
    *("configuration", "model", "system", "chips", "tokens_per_s_per_user", "usd_per_million_tokens", "drafts"),
    *("by", "date", "source", "price_source"),
)


def points_of(rows: Sequence[Measurement]) -> list[dict[str, str]]:
    """The points of a file's rows, in their order, each once."""
    points = []
    for row in rows:
        name = configuration_of(row.text("model").replace("V3/R1", "V3"))
        if row.text("metric") != SPEED or row.measured is None or name is None:
            continue
        price, source = _price(row, rows)
        points.append(
            {
                "configuration": name,
                "model": row.text("model"),
                "system": row.text("system"),
                "chips": row.text("chips"),
                "tokens_per_s_per_user": f"{row.measured:g}",
                "usd_per_million_tokens": "" if price is None else f"{price:.4g}",
                "drafts": _drafts(row.text("spec_decode")),
                "by": row.text("vendor_or_independent"),
                "date": row.text("date"),
                "source": row.text("source_url"),
                "price_source": source,
            }
        )
    return points


def text_of(points: Iterable[dict[str, str]]) -> str:
    """The text of the packed file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(points)
    return out.getvalue()


def _price(row: Measurement, rows: Sequence[Measurement]) -> tuple[float | None, str]:
    """Dollars of a million tokens of the service that a row is about, and the address of who says so."""
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
    """Whether tokens are drafted: yes, no or unknown."""
    word = text.split(" ")[0]
    return word if word in ("yes", "no") else "unknown"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    PACKED.write_text(text_of(points_of(read(parser.parse_args().file))), encoding="utf-8")
