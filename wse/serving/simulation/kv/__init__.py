"""Memory for KV caches: the room of a machine, prefixes kept for later prompts, and further tiers."""
