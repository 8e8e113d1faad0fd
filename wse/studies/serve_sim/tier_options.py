"""Option group of ``wse serve-sim``: tiers in which KV caches of prefixes are parked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from wse.studies.options.option import Option, Panel

SRAM: Final = "sram"
WAFER: Final = "wafer"
HOST: Final = "host"
TIERS: Final = (SRAM, WAFER, HOST)
"""All tiers, in the order in which they are filled: from the one with the highest bandwidth on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """Options for memory tiers that store KV caches of prompt prefixes for reuse.

    If the KV cache is full, a prefix is moved to a tier. Later prompts can load it from there.
    """

    PANEL: ClassVar[Panel] = "Serving"

    kv_tiers: Annotated[
        str | None,
        Option(
            doc="Where to park prefixes that must leave the KV cache: on unused PEs (sram), on wafers that only "
            "store KV caches (wafer), in host memory (host), or several of these in a list. A later prompt loads "
            "them unless reading them again is faster. Implies --prefix-cache. GPUs have host only.",
            metavar="sram,wafer,host",
        ),
    ] = None
    kv_wafers: Annotated[
        int | None,
        Option(doc="With --kv-tiers wafer, wafers per replica that only store KV caches. Default: 1."),
    ] = None
    kv_host_memory: Annotated[
        float | None,
        Option(
            doc="With --kv-tiers host, memory per replica for KV caches, such as 4TB. Default: 3.6 TB per wafer or "
            "256 GB per GPU.",
            metavar="SIZE",
            unit="GB",
        ),
    ] = None

    @property
    def tier_names(self) -> tuple[str, ...]:
        """Names of the requested tiers, in the order in which the user lists them."""
        return () if self.kv_tiers is None else tuple(name.strip() for name in self.kv_tiers.split(","))

    @property
    def storage_wafers(self) -> int:
        """Number of wafers per replica that only store KV caches."""
        return (self.kv_wafers or 1) if WAFER in self.tier_names else 0
