"""BurstGPT traces (Wang et al., KDD 2025; github.com/HPMLL/BurstGPT).

Times are in seconds. Failed requests have 0 response tokens.
"""

from __future__ import annotations

from typing import Final

from wse.studies.serve_sim.traces.plain_csv import PlainCsv

BURSTGPT: Final = PlainCsv(
    title="BurstGPT CSV",
    arrival="Timestamp",
    prompt="Request tokens",
    answer="Response tokens",
)
