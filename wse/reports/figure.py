"""Figures of matplotlib as PNG images: in files, and by themselves in notebooks.

Importing this module imports matplotlib: functions that draw do it when they are called.
"""

from __future__ import annotations

import io
from typing import Final

from matplotlib.figure import Figure

DPI: Final = 110


class NotebookFigure(Figure):
    """A figure that a notebook shows, whether or not it has imported pyplot."""

    def _repr_png_(self) -> bytes:
        return png_of(self)


def png_of(figure: Figure, dpi: int = DPI) -> bytes:
    """Return a figure as a PNG image."""
    image = io.BytesIO()
    figure.savefig(image, dpi=dpi, format="png", metadata={"Software": None})
    return image.getvalue()
