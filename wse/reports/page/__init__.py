"""Pages that consist of a single file: the skeleton, style and scripts that all pages share."""
