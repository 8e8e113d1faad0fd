"""The claim about weights that are not held in SRAM."""

from __future__ import annotations

from typing import Final

from wse.hardware.generations import DEFAULT_WAFER
from wse.hardware.load import load_wafer
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.serving.weight_streaming import StreamingBound
from wse.studies.claims.claim import Curves, Finding, figure
from wse.studies.claims.laboratory import Laboratory, with_type
from wse.studies.compare.grid.streaming import weights_of

MODEL: Final = "llama-3.1-70b"
BATCHES: Final = (1, 8, 64, 512, 4096)


def weights_from_outside(lab: Laboratory) -> Finding:
    """Claim 15: one user's speed where all weights come from memory outside the wafer for every token."""
    resident = lab.estimate(MODEL)
    assert resident.decode is not None
    assert resident.schedule is not None
    wafers, bytes_per_s = resident.system.wafers, load_wafer(DEFAULT_WAFER).host_bytes_per_s
    weights = weights_of(read_config(CONFIGURATIONS[MODEL]), "bfloat16", "bfloat16")
    bound = StreamingBound(weights=weights, bytes_per_s=bytes_per_s, pass_s=1 / resident.decode.tokens_per_s_per_user)
    one, held = bound.tokens_per_s(1), resident.decode.tokens_per_s_per_user
    equal = bound.users_for(resident.schedule.tokens_per_s_at_saturation / wafers)
    numbers = {
        "tokens_per_s_streamed": figure(
            one, "tokens/s", f"of one user of {with_type(MODEL)}, at most, at 150 GB/s to one wafer"
        ),
        "tokens_per_s_held": figure(held, "tokens/s", f"of one user with weights in SRAM of {wafers} wafers"),
        "ratio": figure(held / one, "", "speed with weights in SRAM over that with streamed ones"),
    }
    if equal is not None:
        meaning = "in one batch that make as many tokens a wafer as resident weights do with all stages busy"
        numbers["users_for_parity"] = figure(equal, "users", meaning)
    return Finding(
        verdict="true" if held > 10 * one else "false",
        answer=f"Weights of {with_type(MODEL)} that come at {bytes_per_s / 1e9:,.0f} GB/s for every token give one "
        "user at most "
        f"{one:.2f} tokens/s; held in SRAM {held:,.0f}.",
        numbers=numbers,
        confidence="high",
        reason="bytes over the vendor's bandwidth; ten times the bandwidth would not change the verdict",
        curves=Curves(
            x="users in a batch",
            y="tokens/s of a user, at most",
            lines={"streamed": tuple((float(batch), bound.tokens_per_s(batch) / batch) for batch in BATCHES)},
            log_x=True,
            log_y=True,
        ),
    )
