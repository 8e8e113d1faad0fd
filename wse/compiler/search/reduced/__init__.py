"""Reduced models, on which layouts are tried."""
