"""State of the lowering of one phase: its steps, its buffers, and the context shared by all ops."""
