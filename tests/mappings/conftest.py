"""Hypothesis profile of the tests of mappings: no deadline, because a busy machine is not a bug."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
