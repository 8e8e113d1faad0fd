"""Patterns along one line of PEs: their messages as segments, where they conflict, and the cycles they take."""
