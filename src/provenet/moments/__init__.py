"""Hermite moments of the labels, and what is read off them: spans, directions, output weights.

Imports `data` and what is below it.
"""
