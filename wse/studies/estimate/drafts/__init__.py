"""Speculative decoding: where a draft runs, how many tokens it drafts, and the speed-up."""
