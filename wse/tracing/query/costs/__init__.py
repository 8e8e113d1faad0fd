"""What a trace has of steps: cycles and traffic, one by one, by group, and as a tree."""
