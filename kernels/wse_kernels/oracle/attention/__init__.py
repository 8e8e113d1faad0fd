"""Oracles of attention over a KV cache."""
