"""Convert matplotlib figures to PNG images, for files and notebooks.

Importing this module imports matplotlib, which is slow. Functions that draw therefore import it
only when they are called.
"""

from __future__ import annotations

import io
from typing import Final

from matplotlib.figure import Figure

DPI: Final = 110


class NotebookFigure(Figure):
    """A figure that a notebook displays, even if the notebook has not imported pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the figure as a PNG image. Notebooks call this method to display it."""
        return png_of(self)


def png_of(figure: Figure, dpi: int = DPI) -> bytes:
    """Return a figure as a PNG image with a resolution of ``dpi`` dots per inch."""
    image = io.BytesIO()
    figure.savefig(image, dpi=dpi, format="png", metadata={"Software": None})
    return image.getvalue()
