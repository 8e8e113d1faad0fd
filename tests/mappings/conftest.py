"""Property tests have no deadline, because a loaded machine is not a bug."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
