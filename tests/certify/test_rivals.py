"""What is said of an answer that rivals beat."""

from __future__ import annotations

import pytest

from provenet.certify.rivals import RivalQuestions
from provenet.fitting.search.alternatives import Comparison, Kind


@pytest.mark.parametrize("asked_for", [True, False])
def test_units_are_left_out_only_by_who_gave_them(asked_for: bool) -> None:
    last = Comparison(4, dict.fromkeys(Kind, 100.0), ())
    further, split, *_ = RivalQuestions(last, 3, asked_for).no_better("Much is left")
    assert not further.holds and not split.holds
    for advice in (further.advice, split.advice):
        assert ("Leave units out" in advice) is asked_for
    if asked_for:
        assert "find their number, take more samples" in further.advice
        assert split.advice.endswith("find their number, or give more time with budget=.")
    else:
        assert "such a network. Take more samples, give more time" in further.advice
        assert split.advice.endswith("units than 3. Give more time with budget=.")
