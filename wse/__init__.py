"""wse: an emulator of SRAM-resident wafer-scale machines."""

from __future__ import annotations

__version__ = "0.1.0"
