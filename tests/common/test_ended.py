"""The words for how loops end."""

from __future__ import annotations

from provenet.common.ended import Ended


def test_want_of_steps_or_of_time_is_no_rest() -> None:
    moving = {ended for ended in Ended if not ended.at_rest}
    assert moving == {Ended.OUT_OF_STEPS, Ended.OUT_OF_TIME}
