"""``wse serve-sim``: requests that arrive over time, served by a compiled model."""
