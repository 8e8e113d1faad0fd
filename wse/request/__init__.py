"""Requests: what a user asks for, checked, with its defaults filled in."""
