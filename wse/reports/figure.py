"""Matplotlib figures that notebooks display.

Importing this module imports matplotlib, which is slow. Functions that draw therefore import it
only when they are called.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from wse.reports.output_file import png_of


class NotebookFigure(Figure):
    """A figure that a notebook displays, even if the notebook has not imported pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG image. Notebooks call this method to display it."""
        return png_of(self)
