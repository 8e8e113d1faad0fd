"""One file a question that people ask: they prepare, compile, execute and time, and give plain results."""
