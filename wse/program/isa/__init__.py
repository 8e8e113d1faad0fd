"""Instruction set of the PEs: the operands, cycles and memory reads of every compute kernel."""
