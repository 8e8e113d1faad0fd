"""``wse estimate``: cycles, traffic, SRAM and cost of a model from its config alone."""
