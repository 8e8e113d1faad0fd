"""Contention on one line of PEs: where messages share links and ramps, and how long their words wait."""
