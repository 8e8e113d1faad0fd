"""Drafts of a run: tokens that a draft model or a look-up in the text proposes."""
