"""HTML page of a serving simulation: data, template, style and script."""
