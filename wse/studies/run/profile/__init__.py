"""Profile of a run: how long this computer needed for each type of step, op and kernel."""
