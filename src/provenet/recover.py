"""The front door: checks the input, runs a method, keeps the best answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from provenet.certify.agreement import (
    best_of,
    deepest_needed,
    is_settled,
    searches_agree,
)
from provenet.certify.candidate import Candidate
from provenet.certify.checks import Claim, Status
from provenet.certify.conclude import conclude
from provenet.certify.found_link import ByLink, best_by_link, with_link
from provenet.certify.hopeless import labels_of_no_network
from provenet.certify.result import Recovery
from provenet.certify.shared_layer import shared_layer
from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.progress import StageProgress
from provenet.common.typing import Progress, Seed
from provenet.data.parallel import one_blas_thread
from provenet.data.passes import Watch, watched, working_time
from provenet.data.sources import LinkedSource, Source
from provenet.fitting.workspace import Wishes, Workspace, prepare
from provenet.methods import METHODS, Method
from provenet.networks.activations import Activation
from provenet.networks.network import Network
from provenet.validation import (
    FOR_CLASSES,
    LIKELIHOOD,
    OPEN,
    as_generator,
    as_source,
    check_data,
    check_options,
    check_surroundings,
    link_of_classes,
    open_checkpoint,
    read_activation,
    read_layers,
    read_link,
)

__all__ = ["METHODS", "recover", "recover_from"]

_LOG = logging.getLogger("provenet")

DEFAULT_BUDGET = 120.0
"""Seconds after which no new attempt is begun."""
SHORTEST_SHARE = 1.0
"""Convention: seconds that the last link is tried, however long the first took."""
FIRST_SHARE = 0.1
"""Convention: share of the time for a first look at each link: the right one often needs no more,
and the wrong one would use up all of it."""


def recover(
    X: Any,
    y: Any = None,
    *,
    units: int | tuple[int, ...] | None = None,
    layers: int | str = 1,
    method: str = "auto",
    activation: str | Activation = "relu",
    noise: float | None = None,
    rng: Seed = None,
    progress: Progress | None = None,
    budget: float = DEFAULT_BUDGET,
    link: str = OPEN,
    faithful: bool = False,
    refine: bool | None = None,
    objective: str = "auto",
    threshold: float | None = None,
    order: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    verbose: bool = False,
) -> Recovery:
    """Recover the network behind samples `(X, y)`, or behind a `Source` given in place of both.

    Parameters
    ----------
    X, y
        Inputs (n, features) and labels (n,) or (n, outputs), in memory or memory-mapped.
    units
        Number of hidden units, or a tuple of the widths of several layers; found when left out.
    layers
        Number of hidden layers; with "auto" one is tried, then two, then three.
    method
        One of `provenet.METHODS`; "auto" chooses.
    activation
        Of the units: "relu", or what the method serves (`provenet methods`); a method that does not
        serve "relu" takes its own instead ("halfspaces": "step"). "leaky_relu" finds the slope
        below zero, "auto" the activation (methods "auto" and "expand-prune").
    noise
        Standard deviation of the label noise, if known; estimated when left out.
    rng
        Seed or generator; the same seed gives the same answer.
    progress
        Called as `progress(stage, fraction, message)`; a negative fraction means unknown.
    budget
        Seconds after which no further attempt is begun.
    link
        How labels came from the network's outputs: "identity", as they are; "logit", as a
        probability between 0 and 1, or one a column; "softmax", as probabilities of classes, a
        column each. Labels that are 0 and 1, or rows with a single one, are classes drawn from such
        probabilities: method "likelihood". With "auto" rows that sum to 1 are probabilities, and
        labels between 0 and 1 are tried as both. The network returned has the link, and
        `predict_proba`.
    faithful
        Run the algorithm of the method's paper, corrected where it is misprinted, and nothing after
        it. An option that a method does not have is refused; `provenet methods` lists what each
        takes.
    refine
        Whether to finish with least squares on the samples; if left out, unless `faithful`. With
        both it goes on from the paper's answer, and the certificate of a network says what that
        had left.
    objective
        What is minimised: one of `provenet.landscape.OBJECTIVES` (method "landscape"),
        "one-by-one" or "simultaneous" ("lowest-layer"; "halfspaces" if faithful); "auto" chooses.
    threshold
        For the methods "lowest-layer" and "halfspaces": units fire where `w.x` exceeds it;
        estimated if left out.
    order
        For the methods "overcomplete" and "regression": ATV21's l, moments up to 2l + 2; by the
        number of units if left out.
    checkpoint
        File in which long passes over the samples are kept: a recovery that was killed and is
        started again with the same data, options and seed goes on from there.
    verbose
        Show bars of progress on stderr, as the command line does, unless `progress` is given.

    Raises
    ------
    InvalidInput
        If the input cannot be used. Bad luck is never an exception: see `Recovery.status`.
    """
    first, is_open = read_activation(activation)
    units = tuple(units) if isinstance(units, list) else units
    plans = [
        check_options(
            name,
            METHODS,
            Wishes(
                units[0] if depth == 1 and isinstance(units, tuple) else units,
                noise,
                first,
                refine,
                faithful,
                objective,
                threshold,
                order,
                open_activation=is_open,
                layers=depth,
            ),
            budget,
        )
        for depth, name in read_layers(layers, units, method, METHODS)
    ]
    check_surroundings(progress, checkpoint=checkpoint)
    generator = as_generator(rng)
    source = as_source(X, y)
    links = read_link(link, source, *plans[0])
    bars = StageProgress.on_stderr() if verbose and progress is None else None
    door = _Door(plans, generator, _Reporter(bars or progress), checkpoint, budget)
    with bars or nullcontext():
        if links == ("identity",):
            result = door.recovered(source, budget)
        else:
            result = _by_links(door, source, links, budget)
    return replace(result, feature_names=source.feature_names)


def recover_from(
    start: Network,
    source: Source,
    *,
    method: str,
    found: str,
    activation: str | Activation = "relu",
    units: int | None = None,
    noise: float | None = None,
    rng: Seed = None,
    progress: Progress | None = None,
    budget: float = DEFAULT_BUDGET,
    strict: bool = False,
) -> Recovery:
    """What samples say of a network that was found otherwise, judged as every answer is.

    Least squares goes on from `start`; `found` says how its number of units came about. Where the
    budget is `strict` the judge's own searches end with it. Other options are those of `recover`.
    """
    wishes = Wishes(units, noise, read_activation(activation)[0])
    chosen, wishes = check_options(method, METHODS, wishes, budget)

    def only(workspace: Workspace) -> Iterator[Candidate]:
        yield Candidate(workspace.standardisation.network_from_user(start), found)

    plans = [(replace(chosen, candidates=only), wishes)]
    door = _Door(plans, as_generator(rng), _Reporter(progress), None, budget, strict)
    return door.recovered(source, budget)


def _by_links(door: _Door, source: Source, links: tuple[str, ...], budget: float) -> Recovery:
    """One link after the other, until one settles it; each shortly first, if there are several."""
    end, found = working_time() + budget, dict[str, ByLink]()
    for share in (FIRST_SHARE, 1.0) if len(links) > 1 else (1.0,):
        for number, link in enumerate(links):
            if link in found and found[link].result.success:
                continue
            left = (end - working_time()) / (len(links) - number)
            only = len(links) == 1
            result = door.through_link(source, link, max(share * left, SHORTEST_SHARE), only=only)
            found[link] = ByLink(link, result)
            if found[link].settles:
                return best_by_link([*found.values()], *source.rows(0, source.size))
    return best_by_link([*found.values()], *source.rows(0, source.size))


@dataclass(frozen=True)
class _Door:
    """What a recovery is to do, whatever the samples."""

    plans: list[tuple[Method, Wishes]]
    rng: np.random.Generator
    report: _Reporter
    checkpoint: str | PathLike[str] | None
    budget: float
    strict: bool = False

    def through_link(self, source: Source, link: str, budget: float, *, only: bool) -> Recovery:
        """From labels that came by this link; where it is not the only one, it may not serve."""
        if link == "identity":
            return self.recovered(source, budget)
        if link_of_classes(source) == link:
            return self._for_classes().recovered(source, budget)
        try:
            linked = LinkedSource(source, link)
            # They lie in memory: passes over them are short, and are not kept.
            return with_link(replace(self, checkpoint=None).recovered(linked, budget), link)
        except NoAnswer as why:
            return self._nothing(str(why))
        except InvalidInput as why:
            if only:
                raise
            return self._nothing(str(why))

    def _for_classes(self) -> _Door:
        """The same with the method for class labels."""
        method, wishes = self.plans[0]
        if method.name not in FOR_CLASSES or wishes.layers > 1:
            raise InvalidInput(
                f"The method {method.name!r} does not serve labels 0 and 1: use {LIKELIHOOD!r}, or "
                "give link='identity' to take them as numbers."
            )
        return replace(self, plans=[check_options(LIKELIHOOD, METHODS, wishes, self.budget)])

    def recovered(self, source: Source, budget: float) -> Recovery:
        """From labels as they are."""
        tell = self.report.tell_pass
        kept = None if self.checkpoint is None else open_checkpoint(self.checkpoint, source, tell)
        with one_blas_thread(), watched(Watch(source, tell, kept)):
            return self._watched(source, budget)

    def _watched(self, source: Source, budget: float) -> Recovery:
        try:
            standardisation = check_data(source, self.plans[0][1].total_units, self.plans[0][0])
        except NoAnswer as why:
            return self._nothing(str(why))
        end, results = working_time() + budget, list[Recovery]()
        for number, (chosen, wishes) in enumerate(self.plans):
            share = (end - working_time()) / (len(self.plans) - number)
            workspace = prepare(
                source,
                wishes,
                standardisation,
                rng=self.rng,
                progress=self.report,
                deadline=working_time() + share,
                latest=end if self.strict else np.inf,
            )
            results.append(_best_of(workspace, chosen))
            if results[-1].success:
                break
        return deepest_needed(results)

    def _nothing(self, why: str) -> Recovery:
        method = self.plans[0][0]
        return Recovery.nothing(method.name, why, _claim(method))


class _Reporter:
    """Passes on the progress of stages, and of the passes over samples within them."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._stage, self._message = "read", ""

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        self._stage, self._message = stage, message
        if self._progress is not None:
            self._progress(stage, fraction, message)

    def tell_pass(self, fraction: float, pace: str) -> None:
        """Where a long pass stands."""
        if self._progress is not None:
            self._progress(self._stage, fraction, "; ".join(filter(None, (self._message, pace))))


def _best_of(workspace: Workspace, method: Method) -> Recovery:
    """Conclude candidates until their worth is settled, or candidates or time are used up."""
    results: list[Recovery] = []
    reason = ""
    try:
        for candidate in method.candidates(workspace):
            results.append(conclude(workspace, candidate, method.name))
            if is_settled(best_of(results), results) or workspace.out_of_time:
                break
    except NoAnswer as why:
        reason = str(why)
    answer = _answer(workspace, method, results, reason)
    timings = {**workspace.timings, "total": time.monotonic() - workspace.started}
    _LOG.info("%s after %.2f s: %s", answer.status, timings["total"], answer.message)
    return replace(answer, timings=timings)


def _answer(workspace: Workspace, method: Method, results: list[Recovery], reason: str) -> Recovery:
    """The best of what was found, and what a search that could not go on says to it."""
    if not results:
        why = reason or _why_nothing(workspace.out_of_time)
        return Recovery.nothing(method.name, why, _claim(method))
    best = best_of(results)
    if reason and best.status is Status.FAILED:
        return best.stopped_by(reason)
    refuted = labels_of_no_network(best, results) if best.status is Status.FAILED else None
    if refuted is not None:
        return best.refuted_by(refuted)
    if best.success and best.claim is Claim.NETWORK:
        best = best.with_checks(*searches_agree(best, results))
    return best if best.success else shared_layer(workspace, results) or best


def _claim(method: Method) -> Claim:
    """What a success of the method would have spoken of."""
    return Claim.LAYER if method.lowest_layer else Claim.NETWORK


def _why_nothing(out_of_time: bool) -> str:
    if out_of_time:
        return "The budget was used up before anything was found: give more time with budget=."
    return (
        "Nothing in the samples stands above their sampling error: take more samples, or use "
        'method="expand-prune", which needs far fewer.'
    )
