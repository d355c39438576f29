"""Fits for labels of which least squares must not believe all."""
