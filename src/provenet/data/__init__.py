"""Where samples come from, and how passes over them go: sources, files, sums, checkpoints.

Imports `networks` and `common`.
"""
