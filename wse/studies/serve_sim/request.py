"""ServeRequest: the options of ``wse serve-sim`` and the arguments of `wse.serve_sim`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from wse.hardware.quantity import TOKEN
from wse.option import Option, Panel
from wse.serving.simulation.arrivals import CONSTANT, POISSON
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options import known_names
from wse.studies.options.option import OptionsOf
from wse.studies.serve_sim.options import BatchingOptions, PrefillOptions, PromisedTimes, TierOptions, TrafficOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeRequest:
    """All options of a serving simulation. None denotes a default that is determined later.

    ``base`` contains the model, the decode machine, and the mean request lengths. If it specifies
    no layout objective, the objective is throughput.

    Attributes:
        draft: Verify drafts in decode passes, with this acceptance: that of a measured model of
            acceptance.toml, typical, probabilities by position such as 0.8,0.7,0.6, or a TOML file.
            On wafers, not for models with linear attention.
        draft_tokens: Draft tokens per pass. Default: the number that is fastest for the --users, or
            for those of one pass.
    """

    PANEL: ClassVar[Panel] = "Drafts"

    base: Annotated[
        EstimateRequest,
        OptionsOf(
            without=(
                "verify_tokens",
                "draft",
                "capacity",
                "network",
                "sensitivity",
                "uncertainty",
                "most_users",
                "trace",
            )
        ),
    ] = field(default_factory=EstimateRequest)
    draft: Annotated[str | None, Option(metavar="NAME|PROBABILITIES|FILE", known_values=known_names.acceptances)] = None
    draft_tokens: Annotated[int | None, Option(unit=TOKEN)] = None
    traffic: Annotated[TrafficOptions, OptionsOf()] = field(default_factory=TrafficOptions)
    batches: Annotated[BatchingOptions, OptionsOf()] = field(default_factory=BatchingOptions)
    parking: Annotated[TierOptions, OptionsOf()] = field(default_factory=TierOptions)
    prefilling: Annotated[PrefillOptions, OptionsOf()] = field(default_factory=PrefillOptions)
    promised: Annotated[PromisedTimes, OptionsOf()] = field(default_factory=PromisedTimes)

    @property
    def arrivals(self) -> str | Path:
        """Random process by which requests arrive, or path of a trace with their arrival times.

        By default, arrivals are Poisson or, if a number of users is given, constant.
        """
        if self.traffic.arrivals is not None:
            return self.traffic.arrivals
        return POISSON if self.base.serving.users is None else CONSTANT

    @property
    def keeps_prefixes(self) -> bool:
        """True if KV caches of prompt prefixes are stored, so that later prompts can reuse them."""
        return self.prefix_option is not None

    @property
    def prefix_option(self) -> str | None:
        """The option by which prefixes are stored; None if they are not."""
        options = {
            "--prefix-cache": self.batches.prefix_cache,
            "--kv-tiers": self.parking.kv_tiers is not None,
            "--prefix-tokens": bool(self.base.workload.prefix_tokens),
        }
        return next((option for option, stores_prefixes in options.items() if stores_prefixes), None)
