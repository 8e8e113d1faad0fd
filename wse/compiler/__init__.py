"""The compiler, which turns a model and a wafer into a Program by running passes over a State."""
