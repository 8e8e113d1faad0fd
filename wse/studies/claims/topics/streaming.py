"""The claim about reading weights from memory outside the wafer."""

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
    """Decide whether wafers would be much slower if they read their weights from DRAM (claim 15).

    One user's speed with weights in SRAM is compared with an upper bound on the speed when the
    weights are read from outside the wafer for every token.
    """
    resident = lab.estimate(MODEL)
    assert resident.decode is not None
    assert resident.schedule is not None
    wafers, bytes_per_s = resident.system.wafers, load_wafer(DEFAULT_WAFER).host_bytes_per_s
    weights = weights_of(read_config(CONFIGURATIONS[MODEL]), "bfloat16", "bfloat16")
    bound = StreamingBound(weights=weights, bytes_per_s=bytes_per_s, pass_s=1 / resident.decode.tokens_per_s_per_user)
    streamed_rate, resident_rate = bound.tokens_per_s(1), resident.decode.tokens_per_s_per_user
    users_for_parity = bound.users_for(resident.schedule.tokens_per_s_at_saturation / wafers)
    numbers = {
        "tokens_per_s_streamed": figure(
            streamed_rate, "tokens/s", f"upper bound for one user of {with_type(MODEL)} at 150 GB/s to one wafer"
        ),
        "tokens_per_s_held": figure(resident_rate, "tokens/s", f"of one user with weights in SRAM of {wafers} wafers"),
        "ratio": figure(
            resident_rate / streamed_rate, "", "speed with weights in SRAM divided by that with streamed weights"
        ),
    }
    if users_for_parity is not None:
        meaning = "in one batch for the tokens/s per wafer that resident weights give with all stages busy"
        numbers["users_for_parity"] = figure(users_for_parity, "users", meaning)
    return Finding(
        verdict="true" if resident_rate > 10 * streamed_rate else "false",
        answer=f"If the weights of {with_type(MODEL)} are read at {bytes_per_s / 1e9:,.0f} GB/s for every token, one "
        f"user gets at most {streamed_rate:.2f} tokens/s. With weights in SRAM it is {resident_rate:,.0f}.",
        numbers=numbers,
        reason="bytes divided by the vendor's bandwidth",
        curves=Curves(
            x="users in a batch",
            y="maximum tokens/s of a user",
            lines={"streamed": tuple((float(batch), bound.tokens_per_s(batch) / batch) for batch in BATCHES)},
            log_x=True,
            log_y=True,
        ),
    )
