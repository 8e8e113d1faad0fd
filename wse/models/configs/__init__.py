"""Readers of model configs: from the keys of config.json to the fields of a ModelSpec."""
