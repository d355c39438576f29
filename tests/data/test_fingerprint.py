"""Equal things have equal fingerprints in every run; different ones do not."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from provenet.data.fingerprint import Nameless, fingerprint
from provenet.data.sources import PopulationSource
from provenet.data.standardisation import LinearSums
from provenet.moments.sums import MomentRequest, MomentSums
from provenet.networks.activations import RELU, leaky_relu
from provenet.networks.network import Network

NETWORK = Network(np.eye(2), [0.1, 0.2])
REQUEST = MomentRequest(PopulationSource(NETWORK, 10, rng=0).standardisation(), 2)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0),
        ("1", 1),
        ((1, 2), (12,)),
        ((1, (2, 3)), ((1, 2), 3)),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.array([0.0]), np.array([5e-324])),
        (RELU, leaky_relu(0.1)),
        (leaky_relu(0.1), leaky_relu(0.2)),
        (partial(MomentSums.of, REQUEST), partial(LinearSums.of, REQUEST)),
        (NETWORK, NETWORK.replace(biases=[0.1, 0.3])),
    ],
)
def test_different_things_differ(a: object, b: object) -> None:
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) == fingerprint(a)


def test_a_copy_is_the_same() -> None:
    other = Network(np.eye(2), [0.1, 0.2])
    assert fingerprint(other) == fingerprint(NETWORK)
    order = partial(LinearSums.of, label_origin=0, origin=1)
    assert fingerprint(order) == fingerprint(partial(LinearSums.of, origin=1, label_origin=0))


def test_another_process_gives_the_same() -> None:
    code = (
        "from provenet.data.fingerprint import fingerprint as f; from functools import partial;"
        "from provenet.moments.sums import MomentSums; import numpy as np;"
        "print(f(partial(MomentSums.of, np.arange(3.0), k='a')))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == fingerprint(partial(MomentSums.of, np.arange(3.0), k="a"))


@pytest.mark.parametrize("thing", [lambda X: X, object(), partial(lambda X: X, 1)])
def test_what_has_no_lasting_name_is_refused(thing: object) -> None:
    with pytest.raises(Nameless):
        fingerprint(thing)
