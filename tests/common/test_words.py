"""Numbers in words, and checks of arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common import words
from provenet.common.words import counted, duration, short_number, sized


def test_numbers_in_words() -> None:
    assert (counted(1, "unit"), counted(1200, "unit")) == ("1 unit", "1,200 units")
    durations = {0.4: "0 s", 59.6: "1 min 0 s", 3599: "59 min 59 s", 3600: "1 h 0 min"}
    for seconds, text in {**durations, 90_000: "1 d 1 h", 4e8: "4,629 d 15 h"}.items():
        assert duration(seconds) == text
    for number, text in {7: "7", 999: "999", 1234: "1.23 thousand", 2e9: "2 billion"}.items():
        assert short_number(number) == text
    assert (sized(850), sized(12.34e6)) == ("850 bytes", "12.3 MB")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (words.check_flag, (True, np.bool_(False)), (1, None)),
        (lambda n, v: words.check_whole(n, v, 2), (2, np.int64(5)), (1, 2.0, True, "3")),
        (words.check_finite, (-1, 0.5), (np.inf, np.nan, True, "1")),
        (words.check_seconds, (0.1, np.inf), (0, -1, np.nan, True)),
        (words.check_deviation, (0, 2.5), (-1, np.inf, None)),
        (words.check_units, (1, 7), (0, 2.0, True)),
        (words.check_path, ("a", Path("a")), (b"a", 3)),
    ],
)
def test_checks(check: Callable[[str, Any], None], good: Any, bad: Any) -> None:
    for value in good:
        check("argument", value)
    for value in bad:
        with pytest.raises(pn.InvalidInput) as error:
            check("argument", value)
        is_a_sentence(error, "argument")
