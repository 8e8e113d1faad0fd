"""``wse race``: the same answer at the pace of several machines, side by side."""
