"""Command ``scenario``: which combinations of settings are consistent with published figures."""
