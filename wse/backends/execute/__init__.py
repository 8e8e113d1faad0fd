"""Execution of a Program: real arithmetic on the bytes of the PEs' SRAM, without timing."""
