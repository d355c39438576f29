"""Tables as people have them: names of columns, labels in any place, other marks between cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import provenet as pn

X = np.array([[1.5, 2.0], [3.0, 4.25], [5.0, 6.0]])
Y = np.array([7.0, 8.5, 9.0])


def written(path: Path, mark: str, decimal: str = ".") -> Path:
    rows = [f"{a}{mark}{y}{mark}{b}" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True)]
    text = "\n".join([mark.join(("age", "price", "dose")), *rows])
    path.write_text(text if decimal == "." else text.replace(".", decimal), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "mark", "decimal"),
    [
        ("a.csv", ",", "."),
        ("a.csv", ";", "."),
        ("a.csv", ";", ","),
        ("a.csv", "\t", "."),
        ("a.tsv", "\t", "."),
    ],
)
def test_labels_by_name_whatever_parts_the_cells(
    name: str, mark: str, decimal: str, tmp_path: Path
) -> None:
    source = pn.open_samples(written(tmp_path / name, mark, decimal), target="price")
    inputs, labels = source.rows(0, 3)
    assert np.array_equal(inputs, X) and np.array_equal(labels, Y)
    assert source.feature_names == ("age", "dose")


def test_without_a_target_the_last_column_is_the_label(tmp_path: Path) -> None:
    source = pn.open_samples(written(tmp_path / "a.csv", ","))
    assert source.feature_names == ("age", "price")
    assert np.array_equal(source.rows(0, 3)[1], X[:, 1])


def test_several_targets_and_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_csv(written(tmp_path / "a.csv", ","))
    table.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        source = pn.open_samples(tmp_path / name, target=["dose", "age"])
        assert source.feature_names == ("price",) and source.outputs == 2
        assert np.array_equal(source.rows(0, 3)[1], X[:, ::-1])


@pytest.mark.parametrize(
    ("target", "message"),
    [("cost", "its columns are age, price, dose"), (["age", "price", "dose"], "no column left")],
)
def test_a_target_that_cannot_be_is_named(
    target: str | list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(pn.InvalidInput, match=message):
        pn.open_samples(written(tmp_path / "a.csv", ","), target=target)


def test_arrays_have_no_target(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=Y)
    with pytest.raises(pn.InvalidInput, match="no columns with names"):
        pn.open_samples(tmp_path / "a.npz", target="y")


def test_names_of_a_frame_are_in_the_result_and_its_text() -> None:
    pandas = pytest.importorskip("pandas")
    names = ["age", "dose", "weight"]
    inputs, labels = pn.sample(pn.random_network(2, 3, rng=0), 200, rng=1)
    result = pn.recover(pandas.DataFrame(inputs, columns=names), labels, rng=0)
    assert result.success and result.feature_names == tuple(names)
    head = next(line for line in str(result).splitlines() if "unit  output" in line)
    assert head.split()[-3:] == names
    assert pn.recover(inputs, labels, rng=0).feature_names == ()
