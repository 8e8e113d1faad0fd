"""One communication pattern a file: a function of sizes that returns a LineSchedule."""
