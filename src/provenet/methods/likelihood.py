"""`"likelihood"`: class labels, 0 and 1 or a one in the column of the class.

No paper and no theorem: the search is that of `"expand-prune"` with the deviance in place of the
sum of squares (`fitting.losses`), and Schwarz's criterion for the number of units.
"""

from __future__ import annotations

from collections.abc import Iterator

from provenet.certify.class_labels import ClassCandidate
from provenet.common.exceptions import NoAnswer
from provenet.fitting.context import Context
from provenet.fitting.losses import loss_of_classes
from provenet.fitting.search.driver import restarts


def likelihood(context: Context) -> Iterator[ClassCandidate]:
    """Restarts from random units."""
    loss = loss_of_classes(context.drawn.y)
    if loss is None:
        raise NoAnswer(
            "The labels are no classes: give 0 and 1, or a column a class with a one in that of "
            "each sample's own; for probabilities, link= with another method."
        )
    for end in restarts(context.with_problem(loss=loss)):
        yield ClassCandidate(end.fit.parameters, end.evidence, loss)
