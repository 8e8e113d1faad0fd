"""Published measurements, read from files that nobody has checked, and the terms that sources use."""
