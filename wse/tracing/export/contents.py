"""Export of the contents of one SRAM buffer of a PE, as a NumPy file or as raw bytes."""

from __future__ import annotations

import io

import numpy as np

from wse.tracing.query.places.contents import Content


def content_file(content: Content, suffix: str) -> bytes:
    """Return the contents of a buffer as the bytes of a file.

    Args:
        content: Contents of a buffer of one PE.
        suffix: Suffix of the file. For ``.npy`` the result is a NumPy file, in which bfloat16
            elements are float32. For any other suffix the result is the raw bytes of the buffer.
    """
    if suffix != ".npy":
        return bytes(content.raw())
    file = io.BytesIO()
    np.save(file, content.numbers(), allow_pickle=False)
    return file.getvalue()
