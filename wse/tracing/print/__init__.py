"""Print-outs of ``wse inspect``, one view a file."""
