"""Pages that are one file: the skeleton, style and scripts that all pages share."""
