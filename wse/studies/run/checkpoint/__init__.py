"""The state of a run in a file, from which it goes on."""
