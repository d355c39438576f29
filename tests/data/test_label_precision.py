"""What labels were rounded to is read from the labels: the step they were made with comes out."""

import numpy as np
import pytest

from provenet.data.label_precision import label_precision

Y = 3 * np.random.default_rng(0).standard_normal(500) + 1


@pytest.mark.parametrize("n", [30, 500])
@pytest.mark.parametrize("step", [1.0, 0.25, 0.1, 1 / 3, 1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("offset", [0.0, 0.137])
def test_steps_are_found_with_any_offset(n, step, offset):
    found = label_precision(np.round(Y[:n] / step) * step + offset)
    # The step is read from a span of labels: it is known to their last digits.
    assert found.widths == pytest.approx(np.full(n, step), rel=1e-9)
    assert found.words == f"rounded to {step:.4g}" and found.cut_off


@pytest.mark.parametrize(("dtype", "words"), [(np.float16, "half"), (np.float32, "single")])
def test_floats_of_few_bits_are_known(dtype, words):
    y = Y.astype(dtype)
    found = label_precision(y.astype(float))
    assert words in found.words and not found.cut_off
    assert np.all(np.abs(y.astype(float) - Y) <= found.widths / 2)  # rounding to the nearest
    assert found.rms == pytest.approx(np.sqrt(np.mean((y - Y) ** 2)), rel=0.15)


def test_significant_digits_are_known():
    found = label_precision(np.array([float(f"{v:.4g}") for v in Y]))
    assert "4 significant digits" in found.words
    size = 10.0 ** np.floor(np.log10(np.abs(Y)))
    assert found.widths == pytest.approx(size / 1000, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_double_precision_has_no_steps(seed):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(rng.integers(10, 2000)) * 10 ** rng.uniform(-5, 5)
    found = label_precision(y + 10 ** rng.uniform(-5, 5))
    assert not found.known and found.rms == 0.0 and found.words == ""


def test_each_output_has_its_own():
    found = label_precision(np.column_stack([np.round(Y, 2), Y, np.round(Y)]))
    assert np.ptp(found.widths, axis=0) == pytest.approx(0)
    assert found.widths[0] == pytest.approx([0.01, 0.0, 1.0])


def test_a_constant_beside_steps_may_have_been_rounded_to_them():
    found = label_precision(np.column_stack([np.round(0.1 * np.sin(Y)), np.round(Y)]))
    assert found.widths[0] == pytest.approx([1.0, 1.0])


def test_few_labels_tell_nothing():
    assert not label_precision(np.array([1.0, 2.0, 4.0])).known
    assert not label_precision(np.ones(50)).known
    assert label_precision(np.array([0.0, 1.0] * 20)).widths[0] == 1.0
