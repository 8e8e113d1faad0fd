"""Machines that serve: times of their passes, room for caches, drafts, and the transfer of caches."""
