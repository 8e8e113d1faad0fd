"""Drafts of a run: models or n-grams that propose tokens."""
