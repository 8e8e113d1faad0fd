"""Speculative decoding: where a draft model runs, how many tokens it drafts, and what that gains."""
