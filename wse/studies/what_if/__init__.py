"""The same estimate on machines that differ in one number each: what would help, and how much."""
