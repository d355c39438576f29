"""How a fit looks at the clock: work is counted, and seconds only stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from provenet.data.passes import working_time
from provenet.estimators.tolerances import CHOICE_SHARE, LEAST_SHARE_TO_FIT, SEARCH_SHARE


def is_over(deadline: float) -> bool:
    """Whether a deadline has passed."""
    return working_time() > deadline


def stop_after(deadline: float) -> Callable[[Any], None]:
    """What `scipy.optimize.minimize` calls after every step: it ends at the first after that."""

    def look(_: Any) -> None:
        if is_over(deadline):
            raise StopIteration

    return look


def fit_deadline(started: float, budget: float) -> float:
    """When a fit ends that follows a search: with the budget, but never at once."""
    return max(started + budget, working_time() + LEAST_SHARE_TO_FIT * budget)


def search_budget(budget: float) -> float:
    """Seconds of an estimator's budget in which a hidden network is looked for."""
    return SEARCH_SHARE * budget


def choice_deadline(deadline: float) -> float:
    """When the choice of a size ends, so that time is left for the last fit."""
    now = working_time()
    return now + CHOICE_SHARE * (deadline - now)
