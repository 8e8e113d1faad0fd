"""``wse explore``: a table as an interactive HTML page that plots any two columns."""
