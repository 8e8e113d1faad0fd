"""Transfers: one record for each way in which a step moves words, read alike by execution and by both timing models."""
