"""Command ``claims``: common statements about fast inference, each decided by a computation."""
