"""Timing of communication patterns along one line of PEs, with contention between messages."""
