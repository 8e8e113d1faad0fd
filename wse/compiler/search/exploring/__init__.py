"""The layouts of a search, the most promising tried first."""
