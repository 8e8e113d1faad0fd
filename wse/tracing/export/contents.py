"""The contents of a buffer of a PE as a file: numbers for numpy, or the bytes."""

from __future__ import annotations

import io

import numpy as np

from wse.tracing.query.places.contents import Content


def content_file(content: Content, suffix: str) -> bytes:
    """Return the elements as a numpy file where the ``suffix`` is ``.npy`` (bfloat16 as float32), else as bytes."""
    if suffix != ".npy":
        return bytes(content.raw())
    file = io.BytesIO()
    np.save(file, content.numbers(), allow_pickle=False)
    return file.getvalue()
