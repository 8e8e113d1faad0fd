"""Predictors of measured inference on a wafer: steps, layers, phases, collectives, memory."""
