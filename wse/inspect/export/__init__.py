"""What an export holds: the parts of a trace in the shape that another program's format wants them in."""
