"""What people read: summaries for the terminal, and JSON, both from the plain values that studies give."""
