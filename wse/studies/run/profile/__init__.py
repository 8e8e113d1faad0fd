"""Time of the emulation itself, by kind of step, op and kernel."""
