"""`recover`: checks the input, runs a method, keeps the best answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from typing import Any

import numpy as np

from provenet import validation as check
from provenet.certify.agreement import best_of, deepest_needed, is_settled, searches_agree
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
from provenet.data.checkpoint import Checkpoint
from provenet.data.passes import Watch, one_blas_thread, watched, working_time
from provenet.data.sources import LinkedSource, Source
from provenet.fitting.context import Context, Options, prepare
from provenet.methods import METHODS, Method
from provenet.networks.activations import Activation
from provenet.networks.network import Network
from provenet.validation import LIKELIHOOD, OPEN

__all__ = ["METHODS", "recover", "recover_from"]

_LOG = logging.getLogger("provenet")


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
    budget: float = 120.0,
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
        Number of hidden units, or a tuple of the widths of several layers; found if left out.
    layers
        Number of hidden layers; "auto" tries one, then two, then three.
    method
        One of `provenet.METHODS`; "auto" chooses.
    activation
        Of the units: "relu", or what the method supports (`provenet methods`); a method without
        "relu" takes its own instead. "leaky_relu" finds the slope below zero, "auto" the activation
        (methods "auto" and "expand-prune").
    noise
        Standard deviation of the label noise, if known; otherwise estimated.
    rng
        Seed or generator; the same seed gives the same answer.
    progress
        Called as `progress(stage, fraction, message)`; a negative fraction means unknown.
    budget
        Seconds after which no further attempt begins.
    link
        How labels follow from the network's outputs: "identity"; "logit", as a probability, or one
        in each column; "softmax", as probabilities of classes, one column each. Labels 0 and 1, or
        rows with a single one, are classes drawn from such probabilities: method "likelihood".
        "auto" takes rows that sum to 1 for probabilities, and tries both links for labels between
        0 and 1. The network returned has the link, and `predict_proba`.
    faithful
        Run the algorithm of the method's paper, with misprints corrected, and nothing after it, if
        the method has this option (`provenet methods`).
    refine
        Whether to finish with least squares on the samples; by default unless `faithful`. With both
        it starts from the paper's answer, whose residual is in the certificate of a network.
    objective
        What is minimised: one of `provenet.landscape.OBJECTIVES` (method "landscape"),
        "one-by-one" or "simultaneous" ("lowest-layer"; "halfspaces" if faithful); "auto" chooses.
    threshold
        For the methods "lowest-layer" and "halfspaces": units fire where `w.x` exceeds it;
        estimated if left out.
    order
        For the methods "overcomplete" and "regression": ATV21's l, moments up to 2l + 2; chosen by
        the number of units if left out.
    checkpoint
        File that keeps long passes over the samples: a recovery that was killed continues from
        there when it is started again with the same data, options and seed.
    verbose
        Show progress bars on stderr, as the command line does, unless `progress` is given.

    Raises
    ------
    InvalidInput
        If the input cannot be used. Bad luck is never an exception: see `Recovery.status`.
    """
    first, is_open = check.read_activation(activation)
    units = tuple(units) if isinstance(units, list) else units
    common = (noise, first, refine, faithful, objective, threshold, order, is_open)
    plans = []
    for depth, name in check.read_layers(layers, units, method):
        widths = units[0] if depth == 1 and isinstance(units, tuple) else units
        plans.append(check.check_options(name, Options(widths, *common, layers=depth), budget))
    check.check_surroundings(progress, checkpoint=checkpoint)
    generator, source = check.as_generator(rng), check.as_source(X, y)
    links = check.read_link(link, source, *plans[0])
    bars = StageProgress.on_stderr() if verbose and progress is None else None
    run = _Run(plans, generator, _Reporter(bars or progress), checkpoint)
    with bars or nullcontext():
        result = run.through_links(source, links, budget)
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
    budget: float = 120.0,
) -> Recovery:
    """Fit a network that was found otherwise to samples, and judge it as every answer is.

    Least squares starts from `start`; `found` is the evidence for its number of units. The judge's
    own searches end with the budget too. Other options are those of `recover`.
    """
    options = Options(units, noise, check.read_activation(activation)[0])
    chosen, options = check.check_options(method, options, budget)

    def only(context: Context) -> Iterator[Candidate]:
        yield Candidate(context.standardisation.network_from_user(start), found)

    plans = [(replace(chosen, candidates=only), options)]
    run = _Run(plans, check.as_generator(rng), _Reporter(progress), strict=True)
    return run.on_samples(source, budget)


@dataclass(frozen=True)
class _Run:
    """What a recovery does, whatever the samples."""

    plans: list[tuple[Method, Options]]
    """Methods with their options, to be tried in turn: of one layer, two, three."""
    rng: np.random.Generator
    report: _Reporter
    checkpoint: str | PathLike[str] | None = None
    strict: bool = False

    def through_links(self, source: Source, links: tuple[str, ...], budget: float) -> Recovery:
        """One link after the other until one settles it; each first gets a tenth of the time: the
        right one often needs no more, and the wrong one would exhaust the budget."""
        if len(links) == 1:
            return self.through_link(source, links[0], budget)
        end, found = working_time() + budget, dict[str, ByLink]()
        for share, (number, link) in product((0.1, 1.0), enumerate(links)):
            if link in found and found[link].result.success:
                continue
            seconds = max(share * (end - working_time()) / (len(links) - number), 1.0)
            try:
                result = self.through_link(source, link, seconds)
            except InvalidInput as why:  # of labels that this link cannot have given
                if link == "identity":
                    raise
                result = _nothing(self.plans[0][0], str(why))
            found[link] = ByLink(link, result)
            if found[link].settles:
                break
        return best_by_link([*found.values()], *source.rows(0, source.size))

    def through_link(self, source: Source, link: str, budget: float) -> Recovery:
        """From labels that came by this link."""
        if link == "identity":
            return self.on_samples(source, budget)
        method, options = self.plans[0]
        if check.link_of_classes(source) == link:
            if method.name not in (OPEN, "expand-prune", LIKELIHOOD) or options.layers > 1:
                raise InvalidInput(
                    f"The method {method.name!r} does not serve labels 0 and 1: use "
                    f"{LIKELIHOOD!r}, or give link='identity' to take them as numbers."
                )
            plans = [check.check_options(LIKELIHOOD, options, budget)]
            return replace(self, plans=plans).on_samples(source, budget)
        try:
            linked = LinkedSource(source, link)
        except NoAnswer as why:
            return _nothing(method, str(why))
        # They are in memory: passes over them are short, and are not kept.
        return with_link(replace(self, checkpoint=None).on_samples(linked, budget), link)

    def on_samples(self, source: Source, budget: float) -> Recovery:
        """From labels as they are: every plan in turn until one succeeds."""
        report, path = self.report.report_pass, self.checkpoint
        kept = None if path is None else Checkpoint(path, source, report=report)
        with one_blas_thread(), watched(Watch(source, report, kept)):
            method, options = self.plans[0]
            try:
                standardisation = check.check_data(source, options.total_units, method)
            except NoAnswer as why:
                return _nothing(method, str(why))
            end, results = working_time() + budget, list[Recovery]()
            for number, (method, options) in enumerate(self.plans):
                now = working_time()
                context = prepare(
                    source,
                    options,
                    standardisation,
                    rng=self.rng,
                    progress=self.report,
                    deadline=now + (end - now) / (len(self.plans) - number),
                    latest=end if self.strict else np.inf,
                )
                results.append(_best_answer(context, method))
                if results[-1].success:
                    break
            return deepest_needed(results)


class _Reporter:
    """Passes on the progress of stages, and of the passes over samples within them."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress or (lambda stage, fraction, message: None)
        self._stage, self._message = "read", ""

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        self._stage, self._message = stage, message
        self._progress(stage, fraction, message)

    def report_pass(self, fraction: float, pace: str) -> None:
        """The progress of a long pass."""
        self._progress(self._stage, fraction, "; ".join(filter(None, (self._message, pace))))


def _best_answer(context: Context, method: Method) -> Recovery:
    """Judge candidates until the best is settled, or candidates or time are exhausted."""
    results: list[Recovery] = []
    reason = ""
    try:
        for candidate in method.candidates(context):
            results.append(conclude(context, candidate, method.name))
            if is_settled(best_of(results), results) or context.out_of_time:
                break
    except NoAnswer as why:
        reason = str(why)
    answer = _answer(context, method, results, reason)
    timings = {**context.timings, "total": time.monotonic() - context.started}
    _LOG.info("%s after %.2f s: %s", answer.status, timings["total"], answer.message)
    return replace(answer, timings=timings)


def _answer(context: Context, method: Method, results: list[Recovery], reason: str) -> Recovery:
    """The best result, with the reason of a search that could not continue."""
    if not results:
        late = "The budget was exhausted before anything was found: give more time with budget=."
        above = "Nothing in the samples stands above their sampling error"
        nothing = (
            f'{above}: take more samples, or use method="expand-prune", which needs far fewer.'
        )
        return _nothing(method, reason or (late if context.out_of_time else nothing))
    best = best_of(results)
    if best.status is Status.FAILED:
        if reason:
            return best.stopped_by(reason)
        refuted = labels_of_no_network(best, results)
        if refuted is not None:
            return best.refuted_by(refuted)
    if best.success and best.claim is Claim.NETWORK:
        best = best.with_checks(*searches_agree(best, results))
    return best if best.success else shared_layer(context, results) or best


def _nothing(method: Method, why: str) -> Recovery:
    """No answer, and what a success of the method would have claimed."""
    claim = Claim.LAYER if method.lowest_layer else Claim.NETWORK
    return Recovery.nothing(method.name, why, claim)
