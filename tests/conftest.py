"""Settings for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from helpers import FakeClock, ProcessorClock

# Derandomised: a run on any machine tries the same examples, so it fails for a reason or not at
# all. No deadline: other work on the machine must not fail a test.
settings.register_profile(
    "provenet", deadline=None, max_examples=40, derandomize=True, database=None
)
settings.load_profile("provenet")


@pytest.fixture(autouse=True, scope="session")
def processor_time() -> Iterator[None]:
    """Budgets go by what this process works, not by what else the machine does."""
    clock = ProcessorClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("provenet.data.passes.time", clock)
        patch.setattr("provenet.extraction.deadline.now", clock.monotonic)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock that budgets go by, which stands still but for what a test lets it do."""
    fake = FakeClock()
    monkeypatch.setattr("provenet.data.passes.time", fake)
    return fake
