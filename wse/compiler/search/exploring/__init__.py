"""Exploration of layouts on reduced models, guided by forecasts."""
