"""Speculative decoding: tokens per pass, the best draft lengths, and trees of draft tokens."""
