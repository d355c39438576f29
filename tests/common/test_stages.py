"""Stages: told when they begin, added up when they come again, also where they end in an error."""

from __future__ import annotations

import pytest

from provenet.common import progress as module
from provenet.common.progress import Stages


def test_stages_are_told_and_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = iter(range(100)), []
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))  # a second a look
    stages = Stages(lambda *heard: told.append(heard), started=0.0)
    with stages.stage("fit", "first"), stages.stage("solve"):
        pass
    with pytest.raises(ValueError, match="bad luck"), stages.stage("fit"):
        raise ValueError("bad luck")
    assert stages.seconds == {"solve": 1.0, "fit": 3.0 + 1.0}
    assert told == [("fit", -1.0, "first"), ("solve", -1.0, ""), ("fit", -1.0, "")]
    assert stages.total == 6.0
