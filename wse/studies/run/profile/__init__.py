"""Profile of a run: how long this computer spent on each type of step, op and kernel."""
