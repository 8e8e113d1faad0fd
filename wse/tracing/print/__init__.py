"""Output of ``wse inspect``, with one file for each view."""
