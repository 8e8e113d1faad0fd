"""Drafts that a model verifies: tokens per pass, the best lengths, and trees of several choices."""
