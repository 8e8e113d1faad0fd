"""Published measurements, what the models say of each, and how far off that is."""
