"""Hermite moments of the labels, and what they determine: span, directions, output weights.

`hermite` (moments of a source), `symmetric` (tensors by distinct entries), `subspace` (span and
number of the units), `decomposition` (the units themselves). Imports `data` and what is below it.
"""
