"""Division of wafers into regions: which layers a region stores, and its rows and columns."""
