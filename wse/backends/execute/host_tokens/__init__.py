"""Tokens on the host: input ids, sampling, drafts by prompt lookup, ids of verification passes."""
