"""``wse estimate``: cycles, traffic and SRAM of a model from its config alone."""
