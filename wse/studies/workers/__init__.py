"""Process pools that share the work of a study, on this computer or on a Ray cluster."""
