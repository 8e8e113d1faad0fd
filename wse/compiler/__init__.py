"""The compiler: turns a model and a wafer into a Program, by a tuple of passes over a State."""
