"""``wse export``: conversion of a trace to the formats of other programs."""
