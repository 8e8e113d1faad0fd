"""Fast timing model: cycles and link loads of a Program on the whole mesh, without weights."""
