"""Drafts of a run: tokens proposed by a draft model or by a look-up in the text."""
