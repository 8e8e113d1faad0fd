"""Splitwise traces in the format of Vidur (Agrawal et al., MLSys 2024, github.com/microsoft/vidur)."""

from __future__ import annotations

from typing import Final

from wse.studies.serve_sim.traces.plain_csv import PlainCsv

SPLITWISE: Final = PlainCsv(
    title="Splitwise CSV of Vidur",
    arrival="arrived_at",
    prompt="num_prefill_tokens",
    answer="num_decode_tokens",
)
