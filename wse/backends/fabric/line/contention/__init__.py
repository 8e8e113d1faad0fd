"""Contention on a line of PEs: where messages share links and ramps, and how long words wait."""
