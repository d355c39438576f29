"""The lowest layer of a deeper network (GP19): directions, fits, refinement, what lies above.

Imports `landscape`, `certify` and what is below them.
"""
