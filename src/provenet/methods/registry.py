"""Which methods there are, what each needs, and how to call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from provenet.methods.options import (
    FAITHFUL,
    OBJECTIVE,
    ORDER,
    REFINE,
    THRESHOLD,
    Option,
    landscape_objective,
    layer_objective,
)
from provenet.networks.activations import RELU, Activation, get_activation

if TYPE_CHECKING:
    from provenet.certify.candidate import Candidate
    from provenet.certify.class_labels import ClassCandidate
    from provenet.certify.deep import DeepCandidate
    from provenet.certify.layer import LayerCandidate
    from provenet.fitting.context import Context


@dataclass(frozen=True)
class Method:
    """A way to find a network: a generator of candidates, the most likely first."""

    name: str
    summary: str
    needs: str
    paper: str
    candidates: Callable[
        [Context],
        Iterator[Candidate]
        | Iterator[ClassCandidate]
        | Iterator[DeepCandidate]
        | Iterator[LayerCandidate],
    ]
    independent_units: bool = False
    """Whether the units must have linearly independent weights, so at most as many as features."""
    independent_outputs: bool = False
    """Whether units must have independent output weights, so at most as many as outputs."""
    fewest_outputs: int = 1
    one_output: bool = False
    activations: tuple[str, ...] = ("relu",)
    any_rectified: bool = False
    """Whether an activation of the user's own serves that is zero below zero and has an inverse."""
    any_activation: bool = False
    standard_inputs: bool = False
    """Whether inputs must be standard normal as they are: 0/1 weights do not survive a scaling."""
    any_smooth: bool = False
    """Whether every differentiable activation serves, one of the user's own too."""
    any_even: bool = False
    """Whether an even activation of the user's own serves."""
    finds_activation: bool = False
    """Whether the activation may be left open (`activation="auto"`)."""
    lowest_layer: bool = False
    """Whether it looks for a layer whose top is not known."""
    inputs_alone: bool = False
    """Whether inputs that were kept by their labels say something without them."""
    options: tuple[Option, ...] = (REFINE,)
    """What may be asked of it beside what every method has; candidates are refined at the door."""
    check_objective: Callable[[str, Activation], None] | None = None
    """Raises for an objective that is not the method's own; None for a method without any."""
    deep: bool = False
    """Whether it serves several hidden layers, and only these."""
    in_memory: bool = False
    """Whether it holds all samples in memory, so these must be `holdable`."""

    def activation_for(self, asked: Activation) -> Activation:
        """The activation asked for; in place of ReLU, the default, the method's own if need be."""
        if asked is RELU and "relu" not in self.activations and not self.any_activation:
            return get_activation(self.activations[0])
        return asked

    def serves(self, activation: Activation) -> bool:
        """Whether units of this activation can be recovered."""
        own = (
            (self.any_rectified and activation.inverse is not None)
            or (self.any_even and activation.even)
            or (self.any_smooth and activation.smooth)
        )
        return self.any_activation or own or activation.family in self.activations


def _recipe(name: str) -> Callable[[Context], Iterator[Any]]:
    """The generator of that name in the module of that name, imported only when it runs."""

    def candidates(context: Context) -> Iterator[Any]:
        recipe: Callable[[Context], Iterator[Any]] = getattr(import_module(module), name)
        return recipe(context)

    module = f"{__package__}.{name}"
    candidates.__module__, candidates.__qualname__ = module, name
    return candidates


_PIECEWISE_LINEAR = ("relu", "leaky_relu", "abs")

METHODS = {
    method.name: method
    for method in (
        Method(
            "auto",
            "chooses among the methods below by samples, inputs and cost",
            "-",
            "-",
            _recipe("auto"),
            activations=_PIECEWISE_LINEAR,
            any_smooth=True,
            finds_activation=True,
        ),
        Method(
            "expand-prune",
            "least squares with swaps, growth and pruning; few samples, width found",
            "any inputs in general position",
            "none: the answer certifies itself",
            _recipe("expand_prune"),
            activations=_PIECEWISE_LINEAR,
            any_smooth=True,
            finds_activation=True,
        ),
        Method(
            "deep",
            "several hidden layers (layers=2, 3, ...): expand-prune on layers, widths found",
            "any inputs in general position; several samples a parameter",
            "none: the answer certifies itself",
            _recipe("deep"),
            activations=("relu", "abs"),
            any_smooth=True,
            options=(),
            deep=True,
        ),
        Method(
            "likelihood",
            "class labels by maximum likelihood: expand-prune with the deviance, width found",
            "labels 0 and 1, or a column a class; that overlap; any inputs in general position",
            "none: the likelihood judges",
            _recipe("likelihood"),
            activations=("relu", "abs"),
            any_smooth=True,
            options=(),
        ),
        Method(
            "lifting",
            "one linear system in lifted unknowns; exact from few samples",
            "outputs >= units, independent; labels without noise; any inputs in general position",
            "none: the null space certifies itself",
            _recipe("lifting"),
            independent_outputs=True,
            fewest_outputs=2,
            activations=_PIECEWISE_LINEAR,
        ),
        Method(
            "rectified",
            "second moments of every output, joint diagonalisation, exact finish",
            "Gaussian inputs; units <= features, independent; one output goes to order 4",
            "BJW19, Algorithms 4-6 and section 9.1",
            _recipe("rectified"),
            independent_units=True,
            activations=("relu", "relu2", "relu3"),
            any_rectified=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "ica",
            "independent components of the labels, then the exact finish",
            "Gaussian inputs; weights orthonormal on standardised inputs; outputs >= units",
            "BJW19, Algorithm 3",
            _recipe("ica"),
            independent_units=True,
            independent_outputs=True,
            fewest_outputs=2,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "symmetric-inputs",
            "second moments of pairs of labels; any noise that is independent of the inputs",
            "inputs symmetric about their mean; units <= features and outputs; no biases",
            "BJW19, section 4.3",
            _recipe("symmetric_inputs"),
            independent_units=True,
            independent_outputs=True,
            fewest_outputs=2,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "rank-deficient",
            "samples with a single unit on, found by their parallel labels",
            "two or more outputs, no two columns of A in one direction; no noise; few units",
            "BJW19, Algorithm 7",
            _recipe("rank_deficient"),
            fewest_outputs=2,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "sparse-noise",
            "robust PCA of the labels, then rectified; returns the corrupted labels",
            "a small share of labels corrupted; Gaussian inputs; outputs well above units",
            "BJW19, section 8",
            _recipe("sparse_noise"),
            in_memory=True,
            independent_units=True,
            independent_outputs=True,
            fewest_outputs=3,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "arbitrary-noise",
            "robust start, sign step, Huber fit; faithful=True: the paper's enumeration",
            "noise of any kind, independent of the inputs; Gaussian inputs; two or more outputs",
            "BJW19, Algorithm 8, Theorem 12",
            _recipe("arbitrary_noise"),
            in_memory=True,
            independent_units=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "arbitrary-inputs",
            "sign patterns of the labels' span and linear programs",
            "any fixed inputs; units <= 3, samples <= 60; outputs >= units; no noise",
            "BJW19, Algorithms 1 and 2, Lemma 1",
            _recipe("arbitrary_inputs"),
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "biased-relu",
            "Hermite moments, tensor decomposition, then least squares",
            "one output; Gaussian inputs; units <= features, independent",
            "ATV21, Algorithms 1-4 and 6",
            _recipe("biased_relu"),
            independent_units=True,
            one_output=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "overcomplete",
            "more units than features: moments up to 2l + 2 (order=l) of a population or with "
            "faithful=True, else expand-prune",
            "one output; no two units parallel; faithful: Gaussian inputs, many samples",
            "ATV21, Algorithms 1, 2 and 4 of any order",
            _recipe("overcomplete"),
            one_output=True,
            options=(REFINE, FAITHFUL, ORDER),
        ),
        Method(
            "regression",
            "a predictor whatever the biases: resolved units (order=l: from moments up to 2l + 2), "
            "and two units for all that is linear",
            "one output; Gaussian inputs; units of large bias become a linear part",
            "ATV21, Algorithm 5 of any order, Theorem 3.2",
            _recipe("regression"),
            one_output=True,
            options=(REFINE, FAITHFUL, ORDER),
        ),
        Method(
            "landscape",
            "minimises an objective without bad minima (objective=), from two moments",
            "one output; Gaussian inputs; units <= features, independent; A > 0; no biases",
            "GLM17, all objectives; appendices A and B",
            _recipe("landscape"),
            independent_units=True,
            one_output=True,
            activations=("relu", "leaky_relu", "abs", "relu3"),
            any_activation=True,
            options=(REFINE, FAITHFUL, OBJECTIVE),
            check_objective=landscape_objective,
        ),
        Method(
            "lowest-layer",
            "units of high threshold under any top: moments, then the samples that fire",
            "one output; Gaussian inputs; units <= features, independent; thresholds well above 1",
            "GP19, section 2, appendix B",
            _recipe("lowest_layer"),
            independent_units=True,
            one_output=True,
            activations=("relu", "step", "sigmoid", "exp"),
            any_activation=True,
            lowest_layer=True,
            inputs_alone=True,
            options=(REFINE, FAITHFUL, OBJECTIVE, THRESHOLD),
            check_objective=layer_objective,
        ),
        Method(
            "halfspaces",
            "a union or intersection of halfspaces from 0/1 labels: normals, offsets, a predictor",
            "one output of two values; any inputs that reach the faces; some flipped labels",
            "GP19, section 2.3",
            _recipe("halfspaces"),
            one_output=True,
            activations=("step",),
            lowest_layer=True,
            options=(FAITHFUL, OBJECTIVE, THRESHOLD),
            check_objective=layer_objective,
        ),
        Method(
            "gradient-search",
            "faces of low thresholds and no linear term: peaks of differences of thin bands",
            "one output; at most 4 features (time grows exponentially); Gaussian inputs",
            "GP19, section 3, appendix C.1",
            _recipe("gradient_search"),
            in_memory=True,
            one_output=True,
            activations=("relu", "step"),
            lowest_layer=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "even",
            "even units under a polynomial: rotation of moments, then least squares for all",
            "one output; Gaussian inputs; weights orthonormal on standardised inputs; no biases",
            "GP19, Theorem 10, appendix D.3",
            _recipe("even"),
            independent_units=True,
            one_output=True,
            activations=("abs",),
            any_even=True,
            lowest_layer=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "binary-cliques",
            "exponential units on sets of features: cliques of a graph of correlations",
            "one output; inputs standard normal as they are; 0/1 weights of one size, up to a "
            "factor; the coefficient of every unit larger than those of products",
            "GP19, Theorem 8, appendix D.1",
            _recipe("binary_cliques"),
            one_output=True,
            activations=("exp",),
            standard_inputs=True,
            lowest_layer=True,
            options=(REFINE, FAITHFUL),
        ),
        Method(
            "exponential",
            "exponential units on disjoint sets of features, told by their second moments",
            "one output; inputs standard normal as they are; disjoint 0/1 weights; coefficients "
            "of the polynomial not negative",
            "GP19, Theorem 9, appendix D.2",
            _recipe("exponential"),
            one_output=True,
            activations=("exp",),
            standard_inputs=True,
            lowest_layer=True,
            options=(REFINE, FAITHFUL),
        ),
    )
}
