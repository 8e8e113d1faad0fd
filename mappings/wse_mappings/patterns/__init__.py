"""Communication patterns, one a file: a function of sizes that returns a schedule of messages."""
