"""Machines of a serving simulation: times of passes, KV-cache capacity, drafts, cache transfer."""
