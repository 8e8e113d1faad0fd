"""Option groups: dataclasses of options that requests are composed of."""
