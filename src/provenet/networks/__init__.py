"""What a network is: values, activations, canonical form, matching, conversions, files.

Knows no samples: imports `common` alone.
"""
