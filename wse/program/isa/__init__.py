"""The instruction set of the PEs: every compute kernel, its operands, what it costs and what it reads."""
