"""Numbers in words."""

from __future__ import annotations

import pytest

from provenet.common.words import counted, duration, short_number


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
        (4e8, "4,629 d 15 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(7, "7"), (999, "999"), (1234, "1.23 thousand"), (4.56e6, "4.56 million"), (2e9, "2 billion")],
)
def test_numbers_have_three_digits_and_a_word(number: float, text: str) -> None:
    assert short_number(number) == text


def test_one_thing_has_no_plural() -> None:
    assert (counted(1, "unit"), counted(1200, "unit")) == ("1 unit", "1,200 units")
