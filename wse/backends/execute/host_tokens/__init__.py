"""Tokens on the host: sampling, drafts by prompt lookup, and ids of verification passes."""
