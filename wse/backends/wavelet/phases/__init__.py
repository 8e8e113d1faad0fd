"""Cycle-by-cycle simulation of the phases of a Program."""
