"""Exponential units on sets of features: correlations, sets, and the polynomial above."""
