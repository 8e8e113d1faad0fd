"""Colours for cycle causes and SRAM uses, shared by terminals, pages and pictures.

Colour-blind people can distinguish these hues.
Source: Okabe and Ito, Color Universal Design, 2008 (jfly.uni-koeln.de/color).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Colour(NamedTuple):
    """A colour in two variants, as hexadecimal RGB.

    Attributes:
        light: Variant for light backgrounds and for terminals.
        dark: Variant for pages with a dark background.
    """

    light: str
    dark: str


_BLUE = Colour("#0072b2", "#3f9bdc")
_SKY_BLUE = Colour("#56b4e9", "#8fd0f5")
_ORANGE = Colour("#e69f00", "#f0b429")
_VERMILION = Colour("#d55e00", "#ec7a35")
_GREEN = Colour("#009e73", "#2bbd92")
_PINK = Colour("#cc79a7", "#dd95bd")
_GREY = Colour("#8b949e", "#8b949e")

CAUSES: Final = {
    "hops": _BLUE,
    "relays": _SKY_BLUE,
    "compute": _ORANGE,
    "launch": _VERMILION,
    "crossing": _GREEN,
    "host": _PINK,
}
USES: Final = {
    "code": _GREY,
    "weights": _BLUE,
    "kv": _ORANGE,
    "state": _VERMILION,
    "activations": _GREEN,
    "buffers": _PINK,
    "free": _SKY_BLUE,
}

SERIES: Final = (_BLUE, _VERMILION, _GREEN, _PINK, _ORANGE, _SKY_BLUE)
"""Colours of the series in a drawing on a page, in order."""
PLOT_SERIES: Final = (*(colour.light for colour in SERIES), "#000000")
"""Colours of the series in a plot, which always has a white background."""


def style_variables() -> str:
    """Return the colours as CSS variables for the light and the dark theme.

    The variables have names such as ``--cause-hops``, ``--use-weights`` and ``--series-0``.
    """
    colours = {f"cause-{name}": colour for name, colour in CAUSES.items()}
    colours |= {f"use-{name}": colour for name, colour in USES.items()}
    colours |= {f"series-{number}": colour for number, colour in enumerate(SERIES)}
    light = " ".join(f"--{name}: {colour.light};" for name, colour in colours.items())
    dark = " ".join(f"--{name}: {colour.dark};" for name, colour in colours.items())
    return f':root {{ {light} }}\n:root[data-theme="dark"] {{ {dark} }}\n'
