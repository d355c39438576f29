"""A placeholder: Gaussian questions and `recover`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from provenet.extraction.oracle import Model, Oracle, open_oracle
from provenet.recover import recover
from provenet.result import Progress, Recovery
from provenet.typing import Seed


def extract(
    f: Model | Oracle,
    features: int | None = None,
    *,
    budget: int | None = None,
    outputs: int | None = None,
    noise: float | None = None,
    units: int | None = None,
    low: Any = None,
    high: Any = None,
    cache: Any = None,
    timeout: float = 30.0,
    retries: int = 5,
    rng: Seed = None,
    progress: Progress | None = None,
) -> Recovery:
    """Ask 2000 Gaussian points, or as many as the budget allows, and recover from them."""
    oracle = open_oracle(
        f,
        features,
        outputs=outputs,
        budget=budget,
        cache=cache,
        low=low,
        high=high,
        timeout=timeout,
        retries=retries,
    )
    random = np.random.default_rng(rng)
    X = random.standard_normal((min(2000, oracle.remaining or 2000), oracle.features))
    X = X.astype(oracle.input_dtype).astype(float)
    result = recover(X, oracle.ask(X), noise=noise, units=units, rng=random, progress=progress)
    return replace(result, queries=oracle.used)
