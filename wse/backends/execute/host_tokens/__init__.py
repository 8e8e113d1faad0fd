"""Tokens on the host: input ids, sampling, drafts by prompt lookup, and ids of verification passes."""
