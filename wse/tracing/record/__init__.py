"""Traces of runs and estimates, as they are written."""
