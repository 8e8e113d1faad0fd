"""State of the lowering of one phase: its steps, its buffers, and what all ops know."""
