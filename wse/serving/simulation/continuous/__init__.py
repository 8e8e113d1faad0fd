"""Continuous batching: users join and leave between two tokens, prompts are read beside the decoding."""
