"""What several methods share and what yields candidates: no method imports another.

Stages that know nothing of candidates stand below, in `moments` and `fitting`.
"""
