"""Least squares on samples: the model, its normal equations, steps, search, errors; robust fits.

Imports `moments` and what is below it.
"""
