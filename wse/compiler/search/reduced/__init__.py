"""Reduced models, with one layer of each kind, on which layouts are tried."""
