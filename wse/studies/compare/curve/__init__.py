"""Tokens a second of a user against dollars and joules of a token, on wafers and GPUs, as the batch varies."""
