"""The numbers of this room. Each is derived (from what is said), measured, or a convention.

Machine precision is eps = 2.2e-16.
"""

from __future__ import annotations

import numpy as np

TINY = 1e-300
"""Keeps a denominator from 0. Derived: far below any number that samples give, above underflow."""

FIRST_RADIUS, RADIUS_AFTER_SADDLE = 0.1, 0.05
"""Of the trust region, over the root of the number of units: rows have norm 1 or so. A
convention."""
ACCEPT, POOR, GOOD = 0.05, 0.25, 0.75
"""Decrease over that of the model: of a step that is taken, that shrinks the region, that may widen
it. The usual ones, a convention."""
AT_THE_EDGE = 0.9
"""Length of a step, over the radius, from which the region may widen. A convention."""
NO_RADIUS = 1e-14
"""Radius at which steps are rounding: 45 eps of rows of norm near 1, a convention."""
FLAT_VALUE = 1e-14
"""Decrease below which the value only shows rounding, over the largest of recent values: 45 eps, a
convention."""
LEAST_WAY_OUT = 1e-6
"""Step along a negative curvature below which there is no way out of a saddle. A convention."""
SHARE_OF_CURVATURE = 0.1
"""Of the decrease that a negative curvature promises: what a way out must reach. A convention."""

STILL, LEVEL = 1e-6, 1e-6
"""Slope and negative eigenvalue, over the Hessian's size, of a local minimum. A convention."""
EIGENVALUE_ACCURACY = 1e-9
"""Of an eigenvalue, over the Hessian's typical size. A convention."""
SMALL_HESSIAN = 100
"""Parameters up to which all eigenvalues are as quick as one. A convention."""

LOSS_RIDGE = 1e-12
"""Over the trace: keeps output weights of equal rows finite. 4500 eps, a convention."""
UNIT_NORM = 1e-9
"""How far a row may be from norm 1 where its norm has nowhere to go. A convention."""

VANISHING = 1e-8
"""Hermite coefficient of an activation that counts as 0. A convention."""
ODD_PART = 1e-10
"""Hermite coefficient of order 1 of an activation that counts as even. A convention."""
SPECTRUM_ROUNDING = 1e-10
"""Entries and eigenvalues, over the largest, that are rounding: 4.5e5 eps, a convention."""
VISIBLE = 0.3
"""Of the largest eigenvalue of sampling error: typical ones are about as large. A convention."""
DIFFERENCE = 1e-5
"""Step of a central difference. Derived: near `eps^(1/3)`, where truncation equals rounding."""
MU_ROUNDING = 1e-12
"""By which a given mu may exceed the theorem's largest: 4500 eps, a convention."""

ENERGY_LEFT_OUT = 1e-13
"""Of `E[sigma^2]`: the error of a truncated series, largest at rho = 1. 450 eps, a convention."""
LEAST_SQUARED_SINE = float(np.finfo(float).eps)
"""Floor of `1 - rho^2` in a denominator. Derived: rounding alone moves it by as much."""
AMPLE = 10.0
"""Over the least lambda allowed: rows of nearly the right norm, and still well conditioned. A
convention."""
SAFEGUARD = 3.0
"""Over the sampling error of the fourth moment. From 1 on rows do not collapse, 3 to be sure: a
convention."""

NEWTON_PRODUCTS = 60
"""Convention: products with the Hessian for one step of truncated Newton: one that is not solved by
then descends all the same."""
RECENT_VALUES = 10
"""Convention: last steps whose largest value tells how much values are rounded."""

LONGEST_SERIES = 100
"""Convention: terms of a Hermite series beyond which it is not summed: that of a smooth activation
ends before, and 150 orders are the most there are (`networks.risk`)."""
MOST_OBJECTIVE_SAMPLES = 100_000
"""Convention: samples on which l2 and abs are evaluated: means over them are known to 0.3%, and
every evaluation takes them all."""
RUN_AWAY = 100.0
"""Convention: rows longer than those of the first step by this factor belong to a descent without
end: the rows of a minimum are of the start's length up to the condition of the weights."""
ROWS_OF_A_BATCH = 1024
"""Convention: samples that are worked on at once: a block of 50 units stays in a processor's own
cache."""

PLAIN_BATCH, PLAIN_STEPS_A_SQUARE = 256, 30
"""Samples a step of the stochastic descent on the squared loss, and steps over the square of the
features. Derived: the paper's 256 and 75,000 at 50 features (GLM17, section 6)."""
BATCH_A_SQUARE, EVEN_BATCHES, EVEN_STEPS_A_FEATURE = 8192 / 50**2, (1024, 8192), 100
"""The same of f2f4 and abs: samples over the square of the features, their least and most, and
steps a feature. Derived: the paper's 8192 at 50 features, and the 5000 steps that its figure takes.
"""
BATCH_A_CUBE, DESIGNED_BATCHES, DESIGNED_STEPS = 8.0, (4096, 262_144), (240, 16)
"""The same of G and F: samples over the cube of the features, their least and most (the paper's),
and steps without and for each feature: 1040 at 50 features, as its figure takes. A convention, set
after a few tries at 6, 10 and 20 features: more samples leave a smaller error."""
UNTIL_PLATEAU, DIVIDED_EVERY = 0.7, 0.06
"""Convention: share of the steps before the first division, and from one to the next: five."""
RECORDED = 100
"""Convention: points of a stochastic path that are kept."""
MOST_NUMBERS_AT_ONCE = 2**24
"""Convention: numbers of inputs that a descent holds at once, 134 MB."""
ROUGH_EIGENVALUE, ROUGH_SAMPLES = 1e-3, 16_384
"""Convention: accuracy of the smallest eigenvalue where a stochastic descent ended, and samples on
which it is measured: sampling error is far larger."""
PLAIN_RATE, PLAIN_RATE_FEATURES = 0.1, 20
"""Step of the stochastic descent on the squared loss of ReLU with output weights 1, up to so many
features; beyond it falls as one over them. Measured in figure 1 of `benchmarks/papers/glm17.py`,
0.04 at 50 features: about the largest that was stable."""
EVEN_RATE, MOST_EVEN_RATE = 0.2 * 50**0.5, 0.5
"""The same of f2f4 and abs, over the root of one over the features, and the largest. Measured in
figure 2, 0.2 at 50 features."""
DESIGNED_RATE = 0.05
"""The same of G and F, over the penalty's curvature. Measured in figure 3."""
