"""Validation of traces: the description of each dataset, each value, and their consistency."""
