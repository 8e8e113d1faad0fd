"""Outputs of ops and contents of PEs, read from SRAM while a Program is executed."""
