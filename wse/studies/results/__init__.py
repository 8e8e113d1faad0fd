"""Parts of results that several studies share, and how they are printed."""
