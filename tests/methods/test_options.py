"""What a method declares is what it reads, and what the doors take."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.fitting.context import Options
from provenet.methods import Method
from provenet.methods.options import FAITHFUL, OPTIONS, REFINE, Option

WISHES = {"faithful": True, "refine": False, "objective": "F", "threshold": 1.0, "order": 2}
NONSENSE = {"faithful": "yes", "refine": "no", "objective": "f", "threshold": np.nan, "order": 1.5}


class Unread(pn.ArraySource):
    """Samples that must not be read."""

    def __init__(self) -> None:
        super().__init__(np.zeros((100, 3)), np.zeros(100))

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError("the samples were read")

    draw = linear_sums = rows  # type: ignore[assignment]


def source_of(module: str) -> str:
    path = importlib.import_module(module).__file__
    assert path is not None
    return Path(path).read_text(encoding="utf-8")


def imported_by(text: str) -> set[str]:
    """Modules of rooms that are given a context, by the import lines of a module."""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    rooms = ("provenet.methods.", "provenet.lowest_layer.")
    return {node.module for node in nodes if node.module and node.module.startswith(rooms)}


def reads(text: str, option: Option) -> bool:
    return re.search(rf"context\.(options\.)?{option.name}\b", text) is not None


@pytest.mark.parametrize("method", pn.METHODS.values(), ids=lambda method: method.name)
@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_a_method_declares_the_options_that_it_reads(method: Method, option: Option) -> None:
    own = source_of(method.candidates.__module__)
    handed_on = any(reads(source_of(module), option) for module in imported_by(own))
    declared = option in method.options
    if reads(own, option):
        assert declared
    if declared and option is not REFINE:  # every candidate is refined at the door
        assert reads(own, option) or handed_on


def test_options_and_recover_have_every_option_with_its_default() -> None:
    keywords = inspect.signature(pn.recover).parameters
    for name, option in OPTIONS.items():
        assert option.name == name
        assert getattr(Options(), name) == option.default == keywords[name].default
        assert f"\n    {name}\n" in (pn.recover.__doc__ or "")


@pytest.mark.parametrize("method", pn.METHODS.values(), ids=lambda method: method.name)
@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_an_option_that_a_method_lacks_is_refused_with_those_that_have_it(
    method: Method, option: Option
) -> None:
    having = [name for name, other in pn.METHODS.items() if option in other.options]
    if method.name in having:
        with pytest.raises(pn.InvalidInput) as error:
            pn.recover(Unread(), method=method.name, **{option.name: NONSENSE[option.name]})
        is_a_sentence(error, option.name, repr(NONSENSE[option.name]))
        return
    for value in (WISHES[option.name], NONSENSE[option.name]):
        with pytest.raises(pn.InvalidInput) as error:
            pn.recover(Unread(), method=method.name, **{option.name: value})
        is_a_sentence(error, f"{option.name}=", repr(method.name), *having)


def test_a_paper_is_followed_to_its_end_and_no_further() -> None:
    """`faithful` gives the paper's own answer; least squares is a step of its own, and is told."""
    truth = pn.Network(np.eye(3, 5), [0.4, -0.5, 0.6], [1.0, -1.2, 1.4], 0.3)
    X, y = pn.sample(truth, 50_000, rng=1)

    def recovered(**options: bool) -> pn.Recovery:
        return pn.recover(X, y, method="biased-relu", units=3, faithful=True, rng=2, **options)

    own, same, refined = recovered(), recovered(refine=False), recovered(refine=True)
    assert own.network is not None and same.network is not None and own.certificate is not None
    np.testing.assert_array_equal(own.network.weights, same.network.weights)
    # Moments of 5e4 samples are known to some thousandths, least squares to rounding.
    assert own.status == "failed" and 1e-3 < pn.parameter_error(own.network, truth) < 1
    assert own.certificate.own_residual is None
    assert refined.status == "exact" and pn.parameter_error(refined.network, truth) < 1e-10
    assert refined.certificate is not None and refined.certificate.own_residual is not None
    assert 1e-3 < refined.certificate.own_residual < 1
    assert "the paper's own answer left" in str(refined)


def test_every_method_of_a_paper_can_be_followed() -> None:
    for method in pn.METHODS.values():
        has_paper = re.match(r"[A-Z]{2,3}\d\d", method.paper) is not None
        assert has_paper == (FAITHFUL in method.options), method.name


def test_the_default_is_as_good_as_not_given() -> None:
    X, y = pn.sample(pn.random_network(2, 3, rng=0), 200, rng=1)
    result = pn.recover(X, y, faithful=np.False_, refine=np.True_, objective="auto", rng=0)
    assert result.success
