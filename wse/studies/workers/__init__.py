"""Processes that share out the work of a study."""
