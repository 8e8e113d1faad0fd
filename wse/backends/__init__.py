"""The backends of a Program: values, fast timing, and the cycle-by-cycle reference."""
