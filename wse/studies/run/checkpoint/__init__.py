"""Checkpoints of a run: files with its state, from which an interrupted run can resume."""
