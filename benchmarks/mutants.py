"""The mutations of `mutations`: one error each, in every stage of the papers' algorithms.

Keyed by function, wherever in the package it stands: its source holds the text exactly once. Tests
are relative to `tests/`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One error on purpose."""

    stage: str
    """The paper's step, and what is wrong with it."""
    function: str
    """The function or class that holds the text; "*" for text at module level."""
    old: str
    new: str
    tests: tuple[str, ...]
    """One of these must fail: node ids, as narrow as possible."""
    fast: bool = False
    """Whether it runs with all other tests: a few do, whose own take less than a second."""


_UNITS = "moments/test_decomposition.py::"
_FAITHFUL = "methods/test_biased_relu.py::test_faithful_road_is_exact_on_a_population[0-4-6]"

ATV21 = (
    Mutation(
        "ATV21 Lemma 3.5: the sign of odd orders is lost",
        "_step_coefficients",
        "(-1) ** (k - 1) * normal_density(b)",
        "normal_density(b)",
        ("networks/test_activations.py",),
    ),
    Mutation(
        "ATV21 section 2: He_2 without its identity",
        "_hermite_from_raw",
        "_half_laplacian(entries, d, degree) / q",
        "0 * _half_laplacian(entries, d, degree)",
        ("moments/test_hermite.py::test_moments_and_their_errors_are_their_definition",),
    ),
    Mutation(
        "ATV21 Algorithm 1: the flattening forgets how often an entry stands in the tensor",
        "flattened",
        "a[:, None, None] * b[:, None] * c",
        "a[:, None, None] * b[:, None]",
        ("moments/test_symmetric.py::test_flattenings_are_sums_of_products_of_powers",),
    ),
    Mutation(
        "ATV21 Claim 4.4 (Jennrich): rows and columns of the eigenvectors exchanged",
        "jennrich",
        "gap, vectors.real.T",
        "gap, vectors.real",
        (_UNITS + "test_third_order_sees_all_units_but_those_with_bias_0",),
    ),
    Mutation(
        "ATV21 Algorithm 2, order 1: the sign of the bias",
        "recover_scalars",
        "_bias(-third, second)",
        "_bias(third, second)",
        (_UNITS + "test_scalars_of_a_network",),
    ),
    Mutation(
        "ATV21 Algorithm 2: the multiplier q of the text (ERRATA 6)",
        "scalars_from_coefficients",
        "(q - 2) * below",
        "q * below",
        (_UNITS + "test_the_recurrence_gives_back_any_unit",),
        fast=True,
    ),
    Mutation(
        "ATV21 Algorithm 2: He_q of the text (ERRATA 6)",
        "scalars_from_coefficients",
        "he(int(k) - 2, bias)",
        "he(int(k), bias)",
        (_UNITS + "test_the_recurrence_gives_back_any_unit",),
    ),
    Mutation(
        "ATV21 Algorithm 2: the sign (-1)^q of the output weight",
        "scalars_from_coefficients",
        "(-1.0) ** q * here",
        "here",
        (_UNITS + "test_the_recurrence_gives_back_any_unit",),
    ),
    Mutation(
        "ATV21 Algorithm 3 (FixSigns): all signs reversed",
        "_signs_of",
        "np.where(z < 0, -1.0, 1.0)",
        "np.where(z < 0, 1.0, -1.0)",
        ("networks/test_signs.py::test_first_moments_fix_the_signs",),
    ),
    Mutation(
        "ATV21 Algorithm 3 (FixSigns): output weights left out",
        "fix_signs",
        "np.linalg.lstsq(unit_terms(a, W), T1",
        "np.linalg.lstsq(unit_terms(np.ones_like(a), W), T1",
        ("networks/test_signs.py::test_first_moments_fix_the_signs",),
    ),
    Mutation(
        "ATV21 Algorithm 4: duplicates of opposite sign are kept",
        "_without_duplicates",
        "1 - abs(W[i] @ W[j])",
        "1 - W[i] @ W[j]",
        ("methods/test_biased_relu.py::test_each_tensor_alone_misses_the_units_it_cannot_see",),
    ),
    Mutation(
        "ATV21 Algorithm 4: weak terms (eta_2) are kept",
        "_terms",
        "strong = alpha > threshold",
        "strong = alpha > -1.0",
        (_UNITS + "test_a_term_below_the_noise_is_left_out",),
    ),
    Mutation(
        "ATV21 Algorithm 4: no rank threshold (eta_1)",
        "_terms",
        "threshold = max(edge, 1e-10 * values[0])",
        "threshold = 1e-10 * values[0]",
        (_UNITS + "test_the_rank_is_what_stands_above_the_noise",),
    ),
    Mutation(
        "ATV21 Algorithm 5: samples beyond tau are kept",
        "term",
        "np.linalg.norm(phi, axis=1) <= tau",
        "np.linalg.norm(phi, axis=1) <= np.inf",
        (
            "methods/test_regression_method.py::"
            "test_samples_beyond_the_truncation_level_have_no_say",
        ),
    ),
    Mutation(
        "ATV21 Algorithm 5: the second side of a unit is the first",
        "term",
        "alpha * RELU(-z)",
        "alpha * RELU(z)",
        (
            "methods/test_regression_method.py::"
            "test_expectations_in_closed_form_are_means_of_many_samples",
        ),
    ),
    Mutation(
        "ATV21 Algorithm 5: order 1 whatever order was asked for",
        "order_of",
        "return context.options.order or smallest_order(",
        "return 1 or smallest_order(",
        (
            "methods/test_regression_method.py::"
            "test_of_any_order_it_is_exact_on_a_population[3-6-2-large2]",
        ),
    ),
    Mutation(
        "ATV21 Theorem 4.2: a unit's second side is its first in the expectations",
        "expected_least_squares",
        "np.vstack([S.weights, -S.weights])",
        "np.vstack([S.weights, S.weights])",
        (
            "methods/test_regression_method.py::"
            "test_of_any_order_it_is_exact_on_a_population[3-6-2-large2]",
        ),
    ),
    Mutation(
        "ATV21 Theorem 3.2: the room of an order with Corollary 3.3's factor (ERRATA 24)",
        "smallest_order",
        "while units > count(features, order):",
        "while units > int(0.99 * count(features, order)):",
        ("methods/test_overcomplete.py::test_the_order_that_has_room",),
    ),
    Mutation(
        "ATV21 Corollary 3.3: the room of an order without its factor",
        "perturbed_order",
        "int(SMOOTHED_ROOM * count(features, order))",
        "count(features, order)",
        (
            "methods/test_identifiability.py::"
            "test_the_order_that_serves_once_weights_are_perturbed[5-5-2]",
        ),
    ),
    Mutation(
        "ATV21 Algorithm 6: biases keep the sign of the unsigned direction",
        "_algorithm_6",
        "W, b = W * signs[:, None], b * signs\n    c = moments",
        "W = W * signs[:, None]\n    c = moments",
        (_FAITHFUL,),
    ),
    Mutation(
        "ATV21 Algorithm 6: the constant's sign",
        "_algorithm_6",
        "c = moments.tensors[0] - a @",
        "c = moments.tensors[0] + a @",
        (_FAITHFUL,),
    ),
    Mutation(
        "ATV21 equation 2: the linear part of a unit (order l)",
        "with_signs",
        "RELU.hermite(1, b) - 0.5",
        "RELU.hermite(1, b)",
        ("methods/test_overcomplete.py::test_a_population_is_recovered_by_moments_alone",),
    ),
    Mutation(
        "moments: the span leaves negative output weights out",
        "span_of_units",
        "order = np.argsort(-np.abs(values))",
        "order = np.argsort(-values)",
        ("moments/test_subspace.py::test_the_span_of_the_population",),
        fast=True,
    ),
    Mutation(
        "moments: a power iteration's fixed point for the direction",
        "power_directions",
        "_normalised(best @ T2)",
        "_normalised(best)",
        (_UNITS + "test_few_units_and_many",),
    ),
    Mutation(
        "moments: the gradient of the fit forgets the order k",
        "__call__",
        "grad_V += 2 * k * weight",
        "grad_V += 2 * weight",
        (_UNITS + "test_value_and_gradient_of_the_risk",),
    ),
    Mutation(
        "moments: the norm of a Hermite tensor without the signs of its Laguerre polynomials",
        "norm_polynomial",
        "(-1) ** n * factorial(k)",
        "factorial(k)",
        ("moments/test_hermite.py::test_norm_of_a_hermite_tensor_from_the_norm_of_the_point",),
    ),
)

_ICA = "methods/test_ica.py::"
_FINISH = "methods/stages/test_exact_finish.py::"
_INPUTS = "methods/test_arbitrary_inputs.py::"
_NOISY = "fitting/test_noisy_signs.py::"

BJW19 = (
    Mutation(
        "BJW19 Lemma 1: patterns of the opposite sign",
        "pattern_blocks",
        "keepdims=True) < Z @ D.T",
        "keepdims=True) < -Z @ D.T",
        ("methods/stages/test_sign_patterns.py::test_all_patterns_in_general_position",),
    ),
    Mutation(
        "BJW19 Algorithm 1: what is off the pattern may be anything",
        "solution_space",
        "np.where(on[:, None], -V, V)",
        "np.where(on[:, None], -V, 0.0)",
        (_INPUTS + "test_solutions_are_linear_on_the_pattern_and_zero_off_it",),
    ),
    Mutation(
        "BJW19 Algorithm 1: the program without its off side",
        "solve",
        "b = np.where(on, -1.0, 0.0)",
        "b = np.where(on, -1.0, 1e9)",
        (_INPUTS + "test_samples_off_the_pattern_must_be_off",),
    ),
    Mutation(
        "BJW19 Algorithm 2: output weights of unscaled samples",
        "weights_of",
        "return W / spans.feature_size, A",
        "return W, A",
        (_INPUTS + "test_units_of_measurement_and_the_size_of_samples_do_not_matter",),
    ),
    Mutation(
        "BJW19 Remark 1: what the units found explain is not taken away",
        "_remark_1",
        "new = rectified - Q.T @ np.linalg.solve(Q @ Q.T, Q @ rectified)",
        "new = rectified",
        (_INPUTS + "test_the_second_unit_is_that_of_the_printed_programs",),
    ),
    Mutation(
        "BJW19 Theorem 1: what is fitted to all samples counts as confirmed",
        "conclude",
        "if candidate.fitted_all:",
        "if False:",
        (_INPUTS + "test_all_samples_that_were_given_are_fitted",),
    ),
    Mutation(
        "BJW19 Theorem 1: samples held out are never fitted",
        "_confirmed",
        "if _explains(network, X, Y):\n                return",
        "if network.units:\n                return",
        (_INPUTS + "test_all_samples_that_were_given_are_fitted",),
    ),
    Mutation(
        "BJW19 Algorithm 2: the label that samples share is no output bias",
        "shared_label",
        "counts[most] > 1",
        "counts[most] > len(Y)",
        (_INPUTS + "test_a_label_that_samples_share_is_the_output_bias",),
    ),
    Mutation(
        "BJW19 Algorithm 3, step 3: the sign of a component",
        "independent_components",
        "S * np.sign(np.mean(S**3, axis=0))",
        "S",
        (_ICA + "test_components_are_positive_multiples_whatever_the_contrast",),
    ),
    Mutation(
        "BJW19 Algorithm 3, step 4: zero where the mass is thinnest",
        "zero_of",
        "np.argmin(values[width:]",
        "np.argmax(values[width:]",
        (_ICA + "test_the_zero_of_a_component_is_where_its_mass_lies",),
    ),
    Mutation(
        "BJW19 Algorithm 3, step 8: the system on all samples",
        "units_on",
        "np.linalg.lstsq(inputs[on], value[on], rcond=None)",
        "np.linalg.lstsq(inputs, value, rcond=None)",
        (_ICA + "test_units_are_read_from_where_they_are_on",),
    ),
    Mutation(
        "BJW19 Algorithm 4: rows and columns of the diagonalisation exchanged",
        "directions",
        "congruence(inside) @ basis",
        "congruence(inside).T @ basis",
        ("methods/test_rectified.py::test_directions_of_a_population_that_are_not_orthogonal",),
    ),
    Mutation(
        "BJW19 Algorithm 4, faithful: the outputs in the wrong mode",
        "directions",
        "inside.transpose(1, 2, 0)",
        "inside.transpose(2, 0, 1)[..., :1].repeat(2, axis=2)",
        ("methods/test_rectified.py::test_directions_of_a_population_that_are_not_orthogonal",),
    ),
    Mutation(
        "BJW19 Algorithm 4: joint diagonalisation goes uphill",
        "_step",
        "downhill = 2 * np.einsum",
        "downhill = -2 * np.einsum",
        (_UNITS + "test_noise_costs_its_own_size",),
    ),
    Mutation(
        "beyond BJW19 Algorithm 4: the sign of biases",
        "biases_along",
        "b = -np.sum(zeta2 * zeta3, axis=1)",
        "b = np.sum(zeta2 * zeta3, axis=1)",
        ("methods/test_rectified.py::test_biases_from_orders_two_and_three[0]",),
    ),
    Mutation(
        "BJW19 Algorithm 5: a unit's values keep the null vector's sign",
        "_unit_values",
        "h *= np.sign(h.sum())",
        "h *= 1.0",
        (_FINISH + "test_linear_solves_finish_from_directions_that_are_a_tenth_off",),
    ),
    Mutation(
        "BJW19 Algorithm 5: a vector that is no null vector will do (ERRATA 11)",
        "_unit_values",
        "if ratio < min(1e-7, best)",
        "if ratio < best",
        (_FINISH + "test_the_finish_says_what_it_lacks",),
    ),
    Mutation(
        "BJW19 Algorithm 5: only one side of the kink is tried",
        "_sides",
        "for side in (z, -z):",
        "for side in (z, z):",
        (_FINISH + "test_linear_solves_finish_from_directions_that_are_a_tenth_off",),
    ),
    Mutation(
        "BJW19 section 9.1: the activation is not inverted",
        "_unit_behind",
        "np.linalg.lstsq(rows, activation.inverse(values), rcond=None)",
        "np.linalg.lstsq(rows, values, rcond=None)",
        (_FINISH + "test_linear_solves_finish_from_directions_that_are_a_tenth_off",),
    ),
    Mutation(
        "BJW19 section 9.1: the scale of an activation without degree",
        "_unit_of_unknown_scale",
        "inverse(values * np.exp(trial))",
        "inverse(values)",
        (_FINISH + "test_an_activation_without_degree_is_finished_by_its_inverse",),
    ),
    Mutation(
        "BJW19 Algorithm 6: all signs reversed",
        "signs_by_projection",
        "loss[: len(W)], -1.0, 1.0)",
        "loss[: len(W)], 1.0, -1.0)",
        ("methods/stages/test_exact_finish.py::test_signs_that_were_reversed_are_found",),
        fast=True,
    ),
    Mutation(
        "BJW19 Algorithm 6: the opposite unit without its opposite bias",
        "signs_by_projection",
        "np.append(b, -b)",
        "np.append(b, b)",
        ("methods/stages/test_exact_finish.py",),
    ),
    Mutation(
        "BJW19 Algorithm 6: signs are decided and not used",
        "signed_by_projection",
        "np.column_stack([W, b]) * signs[:, None]",
        "np.column_stack([W, b])",
        ("methods/test_rectified.py::test_with_noise_the_moments_alone_are_near",),
    ),
    Mutation(
        "BJW19 Algorithm 7: the sign of a line's multiples",
        "_units_of_line",
        "np.sign(line.multiples[0]) * w[None]",
        "w[None]",
        ("methods/test_rank_deficient.py::test_exact_with_fewer_outputs_than_units",),
    ),
    Mutation(
        "BJW19 Algorithm 7: what the units found leave is not looked at",
        "_in_rounds",
        "left = Y - np.maximum(X @ W.T, 0.0) @ A",
        "left = 0 * Y",
        ("methods/test_rank_deficient.py::test_units_are_found_in_what_others_leave",),
    ),
    Mutation(
        "BJW19 Algorithm 7: opposite columns, the discriminant",
        "_linear_functions",
        "np.outer(s, s) - 2 * (R + R.T)",
        "np.outer(s, s) - (R + R.T)",
        ("methods/test_rank_deficient.py::test_opposite_columns_are_told_apart",),
    ),
    Mutation(
        "BJW19 Algorithm 7, step 3: the representative's own sign",
        "_weights_on",
        "line.multiples / line.multiples[0]",
        "line.multiples",
        ("methods/test_rank_deficient.py::test_algorithm_7_as_printed",),
    ),
    Mutation(
        "BJW19 Algorithm 7: two units in one direction, whatever the line",
        "_units_of_line",
        "if _has_two_pieces(X, line.multiples):",
        "if len(X):",
        ("methods/test_rank_deficient.py::test_violated_conditions_are_named",),
    ),
    Mutation(
        "BJW19 Algorithm 7: the output bias stays in the labels",
        "network_behind",
        "c = shared_label(Y)",
        "c = 0 * shared_label(Y)",
        ("methods/test_rank_deficient.py::test_biases_and_an_output_bias_are_recovered",),
    ),
    Mutation(
        "BJW19 Algorithm 7: lines of labels, the two directions of a line are two lines",
        "label_lines",
        "V *= np.where(V @ towards < 0, -1.0, 1.0)[:, None]",
        "V *= 1.0",
        ("methods/stages/test_label_lines.py::test_lines_among_labels_in_general_position",),
    ),
    Mutation(
        "BJW19 Algorithm 8, step 3b: signs reversed",
        "responses",
        "< 0, -1.0, 1.0)",
        "< 0, 1.0, -1.0)",
        (_NOISY + "test_expected_response_is_the_mean_of_signs",),
    ),
    Mutation(
        "BJW19 Algorithm 8, step 3c: strengths of the wrong mean",
        "learn_directions",
        "mean = s.T @ X / n",
        "mean = s.T @ X / n**0.5",
        (_NOISY + "test_strength_is_the_closed_form",),
    ),
    Mutation(
        "BJW19 Algorithm 8: a grid without signs (ERRATA 22)",
        "all_row_guesses",
        "np.concatenate([[0.0], powers, -powers])",
        "np.concatenate([[0.0], powers, powers])",
        (_NOISY + "test_each_guess_once",),
    ),
    Mutation(
        "BJW19 Algorithm 8, step 4: pairs of units compared as if orthogonal",
        "best_units",
        "np.outer(g, k) - 2 * G * K",
        "np.outer(g, k)",
        (_NOISY + "test_best_units_are_those_of_all_regressions",),
    ),
    Mutation(
        "BJW19 Algorithm 8: directions of the units in another order",
        "directions_of",
        "return learn_directions(X, values, usual_size(values))",
        "return learn_directions(X, values[:, ::-1], usual_size(values)[::-1])",
        (
            "methods/test_arbitrary_noise.py::"
            "test_the_sign_step_gives_every_unit_its_own_direction[0-1.0]",
        ),
    ),
    Mutation(
        "BJW19 Algorithm 8: the left inverse is the transpose",
        "directions_of",
        "Z @ np.linalg.pinv(model.output_weights).T",
        "Z @ model.output_weights",
        ("methods/test_arbitrary_noise.py::test_the_sign_step_gives_every_unit_its_own_direction",),
    ),
    Mutation(
        "BJW19 section 4.3: the relation of a unit, q",
        "lifted_factors",
        "np.hstack([pair_factors(y, v), v - 2 * y])",
        "np.hstack([pair_factors(y, v), v + 2 * y])",
        ("methods/test_symmetric_inputs.py::test_the_lifted_factors_are_the_relation_of_a_unit",),
    ),
    Mutation(
        "BJW19 section 4.3: moments in place of covariances",
        "equations",
        "self.FG / self.n - np.outer(self.F, self.G) / self.n**2",
        "self.FG / self.n",
        ("methods/test_symmetric_inputs.py::test_directions_and_number_of_units_with_noise",),
    ),
    Mutation(
        "BJW19 section 4.3: the signs of the units",
        "find_directions",
        "label_squares = -equations",
        "label_squares = equations",
        ("methods/test_symmetric_inputs.py::test_directions_and_number_of_units_with_noise",),
    ),
    Mutation(
        "BJW19 section 4.3: symmetry is asked of the samples to fit alone",
        "symmetric_inputs",
        "_require_symmetry(X)",
        "_require_symmetry(X[: context.problem.samples.size])",
        (
            "methods/test_symmetric_inputs.py::"
            "test_discrete_inputs_that_are_symmetric_pass[signs-False]",
        ),
    ),
    Mutation(
        "BJW19 Theorem 8: the signs of the units, by the labels' mean",
        "paper_directions",
        "np.where(U @ label_mean < 0, -1.0, 1.0)",
        "np.where(U @ label_mean < 0, 1.0, -1.0)",
        (
            "methods/test_symmetric_inputs.py::"
            "test_the_paper_s_equations_hold_for_the_units_of_a_symmetric_sample",
        ),
    ),
    Mutation(
        "BJW19 Definition 10: the other side of the indicator",
        "_columns",
        "np.minimum(z[:, i] * z[:, j], 0.0)",
        "np.maximum(z[:, i] * z[:, j], 0.0)",
        ("methods/test_symmetric_inputs.py::test_the_distinguishing_matrix_is_its_definition",),
    ),
    Mutation(
        "BJW19 section 8, faithful: the labels stay as they are",
        "_corollary_8",
        "clean = np.where(parts.sparse == 0, Y, parts.low_rank)",
        "clean = Y",
        ("methods/test_sparse_noise.py::test_the_paper_s_road_where_its_theorem_holds",),
    ),
    Mutation(
        "BJW19 Theorem 12: any direction agrees with the sign step",
        "agreement",
        "bool(away[worst] <= allowed[worst])",
        "True",
        ("methods/test_arbitrary_noise.py::test_the_sign_step_must_find_the_model_s_directions",),
    ),
    Mutation(
        "BJW19 section 9.1: the scale is found to half of its digits",
        "_unit_of_unknown_scale",
        "for _ in range(8):",
        "for _ in range(0):",
        ("networks/test_own_activation.py::test_log_units_on_the_paper_s_road_to_the_last_digits",),
    ),
    Mutation(
        "BJW19 section 8: the sparse term without its weight (ERRATA 12)",
        "principal_component_pursuit",
        "np.full(Y.shape, 1 / np.sqrt(max(Y.shape)))",
        "np.full(Y.shape, 1.0)",
        ("fitting/test_low_rank.py::test_exact_where_the_theorem_holds",),
    ),
    Mutation(
        "BJW19 section 8: nothing is sparse",
        "principal_component_pursuit",
        "S = T - np.clip(T, -weight / penalty, weight / penalty)",
        "S = np.zeros_like(T)",
        ("fitting/test_low_rank.py::test_exact_where_the_theorem_holds",),
    ),
    Mutation(
        "beyond BJW19 section 8: decoding by squares, not by absolute values",
        "decode",
        "weights = usable * floor / np.hypot(R, floor)",
        "weights = usable * np.ones_like(R)",
        ("fitting/test_low_rank.py::test_decoding_finds_the_sparsest_errors",),
    ),
)

_DESIGNED = "landscape/test_designed.py::"

GLM17 = (
    Mutation(
        "GLM17 P': rows interfere with themselves",
        "value",
        "float(np.sum(turned * B)) - own)",
        "float(np.sum(turned * B)))",
        (_DESIGNED + "test_P_prime_is_the_first_term_alone",),
        fast=True,
    ),
    Mutation(
        "GLM17 G: the sign of the second term",
        "value",
        "np.sum(B * B)) - weight.attraction * own",
        "np.sum(B * B)) + weight.attraction * own",
        (_DESIGNED + "test_G_and_F_of_a_population_are_the_closed_form",),
    ),
    Mutation(
        "GLM17 F: one estimate of the norm squared, not a product of two (ERRATA 4)",
        "value",
        "float(excess @ other)",
        "float(excess @ excess)",
        (_DESIGNED + "test_F_on_samples_is_the_mean_of_the_papers_formula",),
    ),
    Mutation(
        "GLM17 F: norms of T_2 not divided by c_2 (ERRATA 4)",
        "norms",
        "_second(self.X[part], self.y[part]) / self.c_2 for part",
        "_second(self.X[part], self.y[part]) for part",
        ("landscape/test_statistics.py::test_a_batch_is_what_the_definition_says",),
    ),
    Mutation(
        "GLM17 F: N is the identity",
        "__init__",
        "if euclidean else statistics.norms",
        "if True else statistics.norms",
        (_DESIGNED + "test_G_and_F_of_a_population_are_the_closed_form",),
    ),
    Mutation(
        "GLM17 gradient of G: the second term forgotten",
        "gradient",
        "g -= 4 * (weight.interference + weight.attraction)",
        "g -= 4 * (weight.interference)",
        (_DESIGNED + "test_derivatives_along_the_way_rows_may_move",),
    ),
    Mutation(
        "GLM17 gradient of the norm's penalty: half of it",
        "gradient",
        "g += 2 * weight.penalty",
        "g += weight.penalty",
        (_DESIGNED + "test_derivatives_along_the_way_rows_may_move",),
    ),
    Mutation(
        "GLM17 Hessian of G: 4 for 12",
        "hessian_product",
        "h -= 12 *",
        "h -= 4 *",
        (_DESIGNED + "test_hessian_products_are_differences_of_the_gradient",),
    ),
    Mutation(
        "GLM17 gradient of F's l2 term",
        "gradient",
        "weight.interference * turned + weight.ridge * B",
        "weight.interference * turned + 2 * weight.ridge * B",
        (_DESIGNED + "test_derivatives_along_the_way_rows_may_move",),
    ),
    Mutation(
        "GLM17 Theorem 4.6: constants twice too large (ERRATA 3)",
        "_within_ranges",
        "abs(c_4) / 2, abs(c_4) / 24",
        "abs(c_4), abs(c_4) / 12",
        ("landscape/test_constants.py::test_G_is_within_the_ranges_of_theorem_5_1",),
    ),
    Mutation(
        "GLM17 equation 2.10: +2 for -2 (ERRATA 2)",
        "cubes",
        "((z * z - squares) * t - 2 * inner * z)",
        "((z * z - squares) * t + 2 * inner * z)",
        ("landscape/test_fourth_order.py::test_a_batch_is_the_mean_of_hermite_tensors",),
    ),
    Mutation(
        "GLM17 He_4 of a batch: the pairs of the identity",
        "matrix",
        "mean * (trace * np.eye(d) + 2 * S)",
        "mean * (trace * np.eye(d) + S)",
        ("landscape/test_fourth_order.py::test_a_batch_is_the_mean_of_hermite_tensors",),
    ),
    Mutation(
        "GLM17 Theorem 5.1: lambda below its range",
        "_within_ranges",
        "penalty = AMPLE * 4 * largest",
        "penalty = 0.1 * 4 * largest",
        ("landscape/test_constants.py::test_G_is_within_the_ranges_of_theorem_5_1",),
    ),
    Mutation(
        "GLM17 Theorem 5.1: mu beyond its range",
        "_within_ranges",
        "most = SMALL * interference / beta / ratio",
        "most = SMALL * interference / beta * ratio",
        ("landscape/test_constants.py::test_G_is_within_the_ranges_of_theorem_5_1",),
    ),
    Mutation(
        "GLM17 Theorem A.4: weights a_i where F has 1 / a_i",
        "constants_for_F",
        "_within_ranges(name, 1 / largest, 1 / smallest,",
        "_within_ranges(name, smallest, largest,",
        ("landscape/test_constants.py::test_F_is_within_the_same_ranges_for_one_over_a",),
    ),
    Mutation(
        "GLM17 footnote 4: the Hermite form without its middle term (ERRATA 1)",
        "hermite_shape",
        "alpha - 6 * beta, 3 * beta - alpha",
        "alpha + 6 * beta, 3 * beta - alpha",
        ("landscape/test_kernels.py::test_shapes_are_the_functions_they_are_named_after",),
    ),
    Mutation(
        "GLM17 Claim 4.3: the kernel of ReLU",
        "_relu",
        "(sine + rho * rest) / (2 * pi)",
        "(sine - rho * rest) / (2 * pi)",
        ("landscape/test_kernels.py::test_closed_forms_are_the_integral",),
    ),
    Mutation(
        "GLM17 appendix B: Algorithm 1 where units are not orthogonal",
        "output_weights",
        "a = u if orthogonal else",
        "a = u if True else",
        ("landscape/test_linear_layer.py::test_both_algorithms_are_exact_on_moments",),
    ),
    Mutation(
        "GLM17 appendix B: signs of the units",
        "output_weights",
        "np.where(a < 0, -1.0, 1.0)",
        "np.where(a < 0, 1.0, -1.0)",
        ("landscape/test_linear_layer.py::test_both_algorithms_are_exact_on_moments",),
    ),
    Mutation(
        "GLM17 section 6: a step uphill",
        "descend",
        "B - rate * slope",
        "B + rate * slope",
        ("landscape/test_stochastic.py::test_steps_are_what_the_schedule_says",),
    ),
    Mutation(
        "GLM17 section 6: rows of a batch's gradient, a term of He_4 dropped",
        "at",
        "gram @ second + inner @ B)",
        "gram @ second)",
        (
            "landscape/test_fourth_order.py::"
            "test_a_batch_gives_both_contractions_of_a_gradient_at_once",
        ),
    ),
    Mutation(
        "GLM17 section 6: output weights go uphill",
        "gradient",
        "np.column_stack([for_B, for_a])",
        "np.column_stack([for_B, -for_a])",
        ("landscape/test_joint.py::test_gradient_and_hessian_are_those_of_differences",),
    ),
    Mutation(
        "GLM17 section 6: the same samples for every step",
        "__call__",
        "return self.left.pop()",
        "return self.left[-1]",
        ("landscape/test_stochastic.py::test_samples_are_used_up_before_any_is_used_again",),
    ),
    Mutation(
        "GLM17 Theorem 2.3: curvature downhill counts for none (ERRATA 5)",
        "theorem_applies",
        "flat and self.lowest >= -self.theorem.curvature",
        "flat",
        ("landscape/test_second_order.py::test_when_a_theorem_applies",),
    ),
)

_BANDS = "lowest_layer/bands/"
_EVEN = "methods/test_even.py::"
_CLIQUES = "methods/test_binary_cliques.py::"
_EXPONENTIAL = "methods/test_exponential.py::"
_UNIONS = "lowest_layer/unions/"

GP19 = (
    Mutation(
        "GP19 B.6: what is taken off has the order that is wanted",
        "weights_by_order",
        "max(g for g in range(k) if",
        "max(g for g in range(k + 1) if",
        (
            "data/test_sources.py::test_moments_of_kept_samples_are_those_of_the_labels_over_their_mean",
        ),
    ),
    Mutation(
        "GP19 B.6: labels that vanish somewhere are divided by all the same",
        "weights_by_order",
        "or not _reaches_everywhere(source, request)",
        "or False",
        ("data/test_sources.py::test_labels_that_vanish_somewhere_leave_plain_means",),
    ),
    Mutation(
        "GP19 section 3: a slope that falls with the bands is a face",
        "_face",
        "(sharp.h / first.h) ** 0.5",
        "-1.0",
        ("lowest_layer/faces/test_papers_search.py::test_smooth_labels_have_no_faces",),
    ),
    Mutation(
        "GP19 C.1: C_3 with one difference reversed",
        "*",
        "2: np.array([0.0, 0, 1, -1, -1, 1, 0, 0]),",
        "2: np.array([0.0, 0, -1, 1, -1, 1, 0, 0]),",
        ("lowest_layer/faces/test_papers_search.py",),
    ),
    Mutation(
        "GP19 Theorem 10: products of more than three units are not fitted",
        "_least_squares",
        "degree=len(W)",
        "degree=3",
        ("methods/test_even.py::test_a_product_of_all_units_is_exact",),
    ),
    Mutation(
        "GP19 step 1: minimisers for units, not their inverse (ERRATA 18)",
        "_by_objective",
        "np.linalg.pinv(Z).T",
        "Z",
        (
            "lowest_layer/test_directions.py::test_a_sum_of_units_is_found_exactly_from_exact_moments",
        ),
    ),
    Mutation(
        "GP19 step 1: where units fire",
        "_signed",
        "np.where(second * third < 0, -1.0, 1.0)",
        "np.where(second * third < 0, 1.0, -1.0)",
        (
            "lowest_layer/test_directions.py::test_a_sum_of_units_is_found_exactly_from_exact_moments",
        ),
    ),
    Mutation(
        "GP19 step 1, one by one: the next minimum is the last one again",
        "_one_by_one",
        "np.linalg.svd(found @ N, full_matrices=True)[2][len(found) :]",
        "np.eye(m)",
        (
            "lowest_layer/test_directions.py::test_a_sum_of_units_is_found_exactly_from_exact_moments",
        ),
    ),
    Mutation(
        "GP19 Algorithm 2: the width of the two levels (ERRATA 15)",
        "_from_crossings",
        "max(((t2 - t1) / LEVELS_WIDTH) ** 2",
        "max(((t2 - t1) * LEVELS_WIDTH) ** 2",
        (_BANDS + "test_queries.py::test_tan_alpha_within_its_stated_error",),
    ),
    Mutation(
        "GP19 Algorithm 2: a band stands for its upper end",
        "_from_crossings",
        "(t1 + t2 - eps) / 2",
        "(t1 + t2) / 2",
        (_BANDS + "test_queries.py",),
    ),
    Mutation(
        "GP19 Lemma 5: the levels of the text, whatever the others do",
        "_shares",
        "return floor + (1 - floor) * LEVELS[0], floor + (1 - floor) * LEVELS[1]",
        "return LEVELS",
        (_BANDS + "test_queries.py::test_other_units_are_taken_off",),
    ),
    Mutation(
        "GP19 Algorithm 2: the threshold of the offset",
        "threshold",
        "self.offset * np.cos(self.angle)",
        "self.offset / np.cos(self.angle)",
        (_BANDS + "test_queries.py::test_the_threshold_of_an_offset",),
    ),
    Mutation(
        "GP19 Algorithm 1: the printed test of a step (ERRATA 16)",
        "draw",
        "there.angle <= (1 - 0.01 / d) * self.now.angle",
        "there.angle <= 0.01 / d * self.now.angle",
        (_BANDS + "test_descent.py::test_the_papers_random_search_reaches_the_angle",),
    ),
    Mutation(
        "GP19 Algorithm 1: a step that does not shrink with the angle",
        "draw",
        "_perturbed(self.z, 0.1 * np.sin(self.now.angle) / d, self.rng)",
        "_perturbed(self.z, 0.1 / d, self.rng)",
        (_BANDS + "test_descent.py::test_the_papers_random_search_reaches_the_angle",),
    ),
    Mutation(
        "GP19 Algorithm 1 from samples: the samples that chose a direction judge it",
        "near_samples",
        "for i in (0, 1))",
        "for i in (0, 0))",
        (_BANDS + "test_search_samples.py::test_halves_are_apart_and_without_hidden_rows",),
    ),
    Mutation(
        "GP19 Algorithm 2 from samples: the band's width is left in the angle",
        "_from_crossings",
        "- eps**2 / 12",
        "+ eps**2 / 12",
        (
            _BANDS + "test_search_samples.py",
            _BANDS + "test_queries.py::test_tan_alpha_from_samples",
        ),
    ),
    Mutation(
        "GP19 2.1 and B.4: errors of T_2 turn units the other way",
        "_answer",
        "- (own + D) * F",
        "+ (own + D) * F",
        (
            "lowest_layer/test_directions.py"
            "::test_a_small_error_of_the_moments_turns_the_minima_as_predicted",
        ),
    ),
    Mutation(
        "GP19 B.4: one row's own fourth power stays in the interference",
        "_answer",
        "a * (pairs - cubes)",
        "a * pairs",
        (
            "lowest_layer/test_directions.py"
            "::test_a_small_error_of_the_moments_turns_the_minima_as_predicted",
        ),
    ),
    Mutation(
        "GP19 Theorem 6: labels of an intersection are not turned over in step 2",
        "step_two",
        "sign, W = -1.0 if turned else 1.0, start.units.weights",
        "sign, W = 1.0, start.units.weights",
        ("methods/test_halfspaces_method.py::test_theorem_6_whole",),
    ),
    Mutation(
        "GP19 descent: a step away from the unit",
        "moved",
        "w = self.z + self.tan_alpha * self.error.direction",
        "w = self.z - self.tan_alpha * self.error.direction",
        (_BANDS + "test_descent.py::test_descent_reaches_any_angle",),
    ),
    Mutation(
        "GP19 descent: what others add is left in",
        "direction_of_error",
        "V = terms.mean(axis=0) - silent @ others / len(below.X)",
        "V = terms.mean(axis=0)",
        (_BANDS + "test_descent.py::test_direction_of_the_error_within_its_own_error",),
    ),
    Mutation(
        "GP19 band estimates: the score of the width",
        "_scoring",
        "np.column_stack([normal_cdf(-e), -slope, -slope * e])",
        "np.column_stack([normal_cdf(-e), -slope, slope * e])",
        (_BANDS + "test_profile.py::test_fit_within_its_standard_errors",),
    ),
    Mutation(
        "GP19 band estimates: a top that falls past the threshold passes",
        "lowest_share_past",
        "if share < FIRES_PAST - SURELY_FALLS * error:",
        "if share < -1.0:",
        (_BANDS + "test_profile.py::test_past_a_threshold_a_monotone_top_always_fires",),
    ),
    Mutation(
        "GP19 thin bands: the sign of a kink",
        "exclusive_units",
        "-line.constant / slope",
        "line.constant / slope",
        ("lowest_layer/test_exclusive.py::test_units_five_degrees_off_become_exact",),
    ),
    Mutation(
        "GP19 unions: intersections are not turned over",
        "of",
        "(y > self.above) != self.complement",
        "y > self.above",
        (_UNIONS + "test_union_samples.py::test_labels_are_read_by_level_and_complement",),
    ),
    Mutation(
        "GP19 unions: the sides of a face exchanged",
        "version_space",
        "side = np.where(beyond, -1.0, 1.0)",
        "side = np.where(beyond, 1.0, -1.0)",
        (_UNIONS + "test_version_space.py::test_on_a_line_it_is_the_gap_between_the_samples",),
    ),
    Mutation(
        "GP19 unions: the slope of the noisy OR forgets the other units",
        "slope",
        "clear * beta * silent * expit(beta * m)",
        "clear * beta * expit(beta * m)",
        (_UNIONS + "test_noisy_or.py::test_the_slope_is_the_derivative",),
    ),
    Mutation(
        "GP19 unions: the first guess is the worst",
        "candidate_face",
        "np.argmax([excess for excess, _ in scores])",
        "np.argmin([excess for excess, _ in scores])",
        (_UNIONS + "test_candidates.py",),
    ),
    Mutation(
        "GP19 Theorem 10: gamma with 6 for sqrt(6) (ERRATA 19)",
        "_notes",
        "four * C, sqrt(6) * two**2 * CC",
        "four * C, 6 * two**2 * CC",
        (_EVEN + "test_the_condition_of_a_polynomial_has_the_corrected_constant",),
    ),
    Mutation(
        "GP19 Theorem 10: gamma of the moments",
        "_alpha_gamma",
        "sqrt(24), sqrt(1.5) * np.einsum",
        "sqrt(24), 1.5 * np.einsum",
        (_EVEN + "test_alpha_and_gamma_of_the_moments_are_those_of_the_polynomial",),
    ),
    Mutation(
        "GP19 Theorem 10: minima for maxima",
        "_ascent",
        'moved = np.einsum("sab,sb->sa", H, Z)',
        'moved = -np.einsum("sab,sb->sa", H, Z)',
        (_EVEN + "test_maxima_of_a_population_are_the_units",),
    ),
    Mutation(
        "beyond GP19 Theorem 10: pairs are turned the other way",
        "turns",
        "angle = -pull /",
        "angle = pull /",
        (_EVEN + "test_turns_undo_a_small_rotation",),
    ),
    Mutation(
        "GP19 Theorem 8: mu of the text (ERRATA 20)",
        "exponentials",
        "np.exp(b + np.sum(V**2, axis=1) / 2)",
        "np.exp(b + np.sum(V**2, axis=1))",
        (_CLIQUES + "test_correlations_are_appendix_d_with_the_corrected_mu",),
    ),
    Mutation(
        "GP19 Algorithm 3: cliques that are not maximal",
        "extend",
        "if not more and not done:",
        "if not more:",
        (_CLIQUES + "test_maximal_cliques_are_those_of_all_subsets",),
    ),
    Mutation(
        "GP19 Theorem 8: rho upside down",
        "rho_from_moments",
        "return float(s @ s) / linear",
        "return linear / float(s @ s)",
        (_CLIQUES + "test_population_is_answered_exactly",),
    ),
    Mutation(
        "GP19 Theorem 9: g without its normalisation",
        "term",
        "np.exp(X @ z - z @ z / 2)",
        "np.exp(X @ z)",
        (_EXPONENTIAL + "test_g_is_the_mean_of_f_moved",),
    ),
    Mutation(
        "GP19 Theorem 9: the projection misses the simplex",
        "simplex_projection",
        "(np.cumsum(falling) - total)",
        "(np.cumsum(falling) + total)",
        (_EXPONENTIAL + "test_simplex_projection_is_the_nearest_point",),
    ),
)

_MOVES = "fitting/search/test_moves.py::"
_DRIVER = "fitting/search/test_driver.py::"
_SEVERAL = "extraction/test_several_layers.py::"
_LIFTING = "methods/test_lifting.py::"

OURS = (
    Mutation(
        "search: the most useful units are swapped",
        "swapped",
        "np.argsort(costs_without_each(problem, parameters, k))",
        "np.argsort(-costs_without_each(problem, parameters, k))",
        (_MOVES + "test_swaps_exchange_the_least_useful_units",),
    ),
    Mutation(
        "search: the least promising units are added",
        "greedy_selection",
        "best = int(np.argmax(gain))",
        "best = int(np.argmin(np.abs(gain)))",
        (_MOVES + "test_promising_units_beat_random_ones",),
    ),
    Mutation(
        "search: a worse fit is accepted",
        "lowers_bic",
        "problem.bic(new) < problem.bic(old)",
        "problem.bic(new) > problem.bic(old)",
        (_DRIVER + "test_no_worse_criterion_is_ever_accepted",),
    ),
    Mutation(
        "search: parameters cost nothing",
        "bic",
        "+ price * p * np.log(n)",
        "+ 0 * price * p * np.log(n)",
        (_DRIVER + "test_pruning_finds_the_true_width_and_what_one_fewer_costs",),
    ),
    Mutation(
        "expand and prune: what a unit is worth, without its refit",
        "without_each_unit",
        "np.asarray(size / np.abs(np.diag(inverse[:m])))",
        "np.asarray(size)",
        ("fitting/test_least_squares.py::test_what_each_unit_is_worth",),
    ),
    Mutation(
        "lifting: the discriminant's sign",
        "units_behind",
        '+ 4 * np.einsum("is,sab->iab", c, R)',
        '- 4 * np.einsum("is,sab->iab", c, R)',
        (_LIFTING + "test_units_are_read_from_their_relations",),
    ),
    Mutation(
        "lifting: entries of P off the diagonal counted twice",
        "units_behind",
        "/ np.where(rows == columns, 1, 2)",
        "/ np.where(rows == columns, 1, 1)",
        (_LIFTING + "test_units_are_read_from_their_relations",),
    ),
    Mutation(
        "lifting: the largest singular vectors for the null space",
        "_smallest",
        "Z @ rotation[::-1].T",
        "Z @ rotation.T",
        (_LIFTING + "test_the_null_space_is_that_of_the_singular_value_decomposition",),
    ),
    Mutation(
        "lifting: the leading pair of an element is the last",
        "_leading",
        "left[:, 0], sizes[0] * right[0]",
        "left[:, -1], sizes[-1] * right[-1]",
        (_LIFTING + "test_pairs_that_exclude_or_imply_each_other_are_told_from_units",),
    ),
    Mutation(
        "extraction: where tangents meet",
        "meeting",
        "t = self.left.t + float(np.vdot(apart, turn)) / size",
        "t = self.left.t - float(np.vdot(apart, turn)) / size",
        ("extraction/test_lines.py::test_all_kinks_on_a_line_are_found",),
    ),
    Mutation(
        "extraction: a kink is believed without the questions beside it",
        "is_kink_at",
        "on_left = np.abs(middle.first - self.left.at(middle.places[0])).max() <= error",
        "on_left, error = True, np.inf",
        ("extraction/test_lines.py",),
    ),
    Mutation(
        "extraction: the side of a unit",
        "factored",
        "sign = 1.0 if right[0] @ side > 0 else -1.0",
        "sign = 1.0",
        ("extraction/test_kinks.py::test_units_have_the_hyperplanes_of_the_network",),
    ),
    Mutation(
        "extraction: relu(-z) = relu(z) + z",
        "_merged",
        "linear -= np.outer(A[:, i], W[same])",
        "linear += np.outer(A[:, i], W[same])",
        ("extraction/test_kinks.py::test_the_same_unit_met_twice_is_one",),
    ),
    Mutation(
        "extraction: constants of the pieces",
        "measured_pieces",
        'constants = values[:, 0] - np.einsum("nod,nd->no", gradients, X)',
        "constants = values[:, 0]",
        ("extraction/test_kinks.py::test_units_have_the_hyperplanes_of_the_network",),
    ),
    Mutation(
        "extraction: a gradient is believed that predicts no step",
        "measured_pieces",
        "errors, off <= allowed, lengths",
        "errors, off >= 0, lengths",
        ("extraction/test_kinks.py",),
    ),
    Mutation(
        "extraction: blocks leave out the step along the line",
        "points",
        "made[last] += along[pieces[last]]",
        "made[last] += 0",
        ("extraction/test_memory.py::test_gradients_in_blocks_are_the_gradients",),
    ),
    Mutation(
        "extraction: every unit is taken to switch on all of its hyperplane",
        "recurs",
        "return bool(2 * seen.sum() > len(seen)) if len(seen) else None",
        "return True",
        (_SEVERAL + "test_what_was_asked_before_is_handed_to_the_search",),
    ),
    Mutation(
        "several layers: kinks below do not end the pieces of a line",
        "kinks_along",
        "T = np.unique(np.concatenate([T, places]))",
        "T = np.unique(T)",
        ("networks/test_piecewise.py::test_between_kinks_every_unit_stays_as_it_is",),
    ),
    Mutation(
        "several layers: weights into units that are off are taken to show",
        "__init__",
        "axis=1) * (z[k + 1] > 0)",
        "axis=1)",
        (_SEVERAL + "test_weights_between_units_that_are_never_on_together_are_named",),
    ),
    Mutation(
        "several layers: rare weights are not asked for",
        "showing_points",
        "chosen = showing(shown, WeightsShown(network, X, allowed))",
        "chosen = showing(shown, WeightsShown(network, X, allowed))[:0]",
        (_SEVERAL + "test_a_weight_that_hardly_ever_shows_is_asked_for",),
    ),
)

_INTERVALS = "fitting/test_rounded_labels.py::test_moments_are_those_of_the_networks_inside"

HONESTY = (
    Mutation(
        "rounded labels: the site is counted among the others",
        "_site_change",
        "others = 1 - variance * precision",
        "others = 1 - 0 * variance * precision",
        (_INTERVALS,),
    ),
    Mutation(
        "rounded labels: the second derivative of the mass",
        "_mass_derivatives",
        "a * at_a - b * at_b - first**2",
        "a * at_a - b * at_b",
        (_INTERVALS,),
    ),
    Mutation(
        "rounded labels: a constant counts as often as it is repeated",
        "different",
        "np.append(np.flatnonzero(~off), constant[first])",
        "np.append(np.flatnonzero(~off), constant)",
        (_INTERVALS,),
    ),
    Mutation(
        "rounded labels: steps of labels far apart",
        "_in_steps",
        ", *(10.0**exponent for exponent in range(highest, lowest, -1))",
        "",
        ("data/test_labels.py::test_steps_are_found_with_any_offset",),
    ),
    Mutation(
        "noise: scores are not projected off the range of the Jacobian",
        "_scores",
        ".reshape(len(S), -1) - S @ b",
        ".reshape(len(S), -1)",
        ("certify/test_score.py::test_scores_are_those_of_a_dense_projection",),
    ),
    Mutation(
        "noise: p-values are not adjusted for the number of features",
        "score_test",
        "p = min(2 * float(norm.sf(abs(z[worst]))) * tested, 1.0)",
        "p = min(2 * float(norm.sf(abs(z[worst]))), 1.0)",
        ("certify/test_score.py::test_noise_is_hardly_ever_refused[Gaussian]",),
    ),
    Mutation(
        "noise: correlations with the sample before are counted once",
        "autocorrelation_factor",
        "1 + 2 * float(triangle @ rho)",
        "1 + float(triangle @ rho)",
        ("fitting/test_residuals.py::test_the_factor_is_that_of_the_mean",),
        fast=True,
    ),
)

MUTATIONS = (*ATV21, *BJW19, *GLM17, *GP19, *OURS, *HONESTY)
