"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# Derandomised: a run on any machine tries the same examples, so it fails for a reason or not at
# all. No deadline: other work on the machine must not fail a test.
settings.register_profile(
    "provenet", deadline=None, max_examples=40, derandomize=True, database=None
)
settings.load_profile("provenet")
