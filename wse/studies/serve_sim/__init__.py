"""``wse serve-sim``: simulation of a machine that serves requests arriving over time."""
