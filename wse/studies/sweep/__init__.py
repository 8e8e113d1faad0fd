"""A grid of settings, each an estimate, in parallel, resumable, as one table."""
