"""Configs of models: config.json read key by key into the parts of a ModelSpec."""
