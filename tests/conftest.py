"""Settings for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from helpers import FakeClock

# Derandomised: a run on any machine tries the same examples, so it fails for a reason or not at
# all. No deadline: other work on the machine must not fail a test.
settings.register_profile(
    "provenet", deadline=None, max_examples=40, derandomize=True, database=None
)
settings.load_profile("provenet")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock that budgets go by, which stands still but for what a test lets it do."""
    fake = FakeClock()
    monkeypatch.setattr("provenet.data.passes.time", fake)
    return fake
