"""Print-outs of ``wse inspect``, with one file for each view."""
