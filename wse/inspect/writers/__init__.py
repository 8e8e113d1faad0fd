"""Writers of exported traces, one format a file."""
