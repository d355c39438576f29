"""Search for units by expanding, swapping and pruning: no theorem, but any inputs and few samples.

The model is `sum_i beta_i sigma(w_i.x + b_i) + v.x + c`, with several outputs beta_i, v and c one
an output; for piecewise linear units sigma is the absolute value, and what other activations need
(whether there is v, what norms may be) is their `policy`. With absolute values and a free linear
part a unit and its opposite are the same thing, which removes the sign barrier of ordinary
training; a few units more than needed remove most bad minima of the rest. What bad minima remain
are left by swapping: the least useful units make room for those that best explain what is left
(chosen from a random pool by the drop of the residual that each would bring), and
Levenberg-Marquardt runs again.

Labels without noise mostly need no patience: a `dash` for zero goes first, where units have kinks.
A chain starts narrow and swaps; when swaps no longer help it grows by about a third. (The first
chain swaps only where growing alone does not pay, which is cheaper.) It ends with a
residual of zero, and is then pruned to the smallest width that keeps it zero; or, with noise, where
more units no longer lower Schwarz's criterion `n log(rss) + p log(n)`, its second term taken at
three quarters, and is pruned by the same criterion. (The plain F-test is too mild here: a new unit
is the best of many that were tried.)

`chains` is the loop that methods use; it knows the workspace, all else the `Problem` alone.
"""

from provenet.fitting.search.problem import Problem

__all__ = ["Problem"]
