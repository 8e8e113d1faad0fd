"""Recording of traces: what a run or an estimate writes to its trace file."""
