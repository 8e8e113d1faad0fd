"""``wse export``: a trace in the formats of other programs."""
