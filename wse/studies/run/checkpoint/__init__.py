"""Checkpoints of a run: its state in a file, from which an interrupted run resumes."""
