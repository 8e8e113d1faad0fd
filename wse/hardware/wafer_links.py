"""Links between wafers: presets that replace the bandwidth and latency in a wafer's file.

A wafer's file states the link of its vendor's systems. Programs that use another path, such as the
host streams of the SDK, have another link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import UnknownName
from wse.files import names_toml_file
from wse.hardware.generations import VENDOR_LINK
from wse.hardware.number import SourcedNumber
from wse.hardware.preset_reader import PresetKind
from wse.known_names import known_name
from wse.plugins import LINKS


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferLinkSpec:
    """Bandwidth and latency of the link between two neighbouring wafers.

    The fields have the same names as in `WaferSpec`: they replace the numbers of a wafer if another
    link is chosen.
    """

    wafer_link_bytes_per_s: float
    wafer_link_latency_s: float


def _missing(keys: Sequence[str]) -> str:
    """Return the error message for a link file without a required field.

    Args:
        keys: Names of the missing fields, at least one. The message names the first.
    """
    return f"has no {keys[0]}; add it"


_LINK: Final = PresetKind(
    word="link",
    group=LINKS,
    folder=Path(__file__).parent / "links",
    spec=WaferLinkSpec,
    texts={},
    missing=_missing,
)


def known_links() -> tuple[str, ...]:
    """Return the names of all links between wafers, bundled or from installed packages."""
    return (VENDOR_LINK, *_LINK.names())


def link_numbers(name_or_path: str | Path) -> dict[str, SourcedNumber]:
    """Return the bandwidth and latency of a link between wafers, keyed by field of `WaferSpec`.

    The numbers replace those in a wafer's file. The result is empty for the link ``vendor``, which
    the wafer's own numbers describe.

    Args:
        name_or_path: Name of a link, or path of a TOML file.

    Raises:
        UnknownName: There is no such link, or the file has an unknown key.
        BadWafer: The file cannot be read, or a number is missing, in the wrong unit or out of
            bounds.
    """
    link = str(name_or_path)
    if link == VENDOR_LINK:
        return {}
    is_name = _LINK.bundled_name(link) is None and not names_toml_file(link)
    if is_name and known_name(link, known_links()) is None:
        raise UnknownName("link", link, known_links(), place="--link")
    return _LINK.read(link).numbers
