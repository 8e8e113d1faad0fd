"""Machines of a serving simulation: pass times, KV-cache capacity, drafts, and cache transfer."""
