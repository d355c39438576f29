"""What `provenet simulate` does: samples of a random network, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from provenet.cli.ending import note, stderr
from provenet.cli.shared import (
    NETWORK_FILES,
    Features,
    Json,
    Noise,
    Outputs,
    Quiet,
    Samples,
    Seed,
    check_network_to_write,
    check_written,
    finite,
    random_network_of,
    widths,
)
from provenet.common.progress import StageProgress
from provenet.common.words import counted
from provenet.data.files import check_pairing, save_samples
from provenet.datasets import random_network, sample
from provenet.networks.network import Network
from provenet.report import console as show


def simulate(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Samples to write: .npz, .csv, .parquet, .h5, .zarr, or .npy for X alone.",
        ),
    ],
    features: Features = 20,
    units: Annotated[
        Any,
        typer.Option(
            parser=widths,
            metavar="WIDTHS",
            help="Number of hidden units; 16,8 for two hidden layers of so many.",
        ),
    ] = "10",
    outputs: Outputs = 1,
    activation: Annotated[
        str, typer.Option(help='Of the units: relu, "leaky_relu(0.2)", abs, tanh, gelu, silu, ...')
    ] = "relu",
    samples: Samples = 1000,
    noise: Noise = 0.0,
    bias_scale: Annotated[
        float, typer.Option(min=0, callback=finite, help="Biases lie between minus this and this.")
    ] = 1.5,
    labels: Annotated[Path | None, typer.Option(help="Where y goes when OUT is .npy.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help=f"Write the true network here ({NETWORK_FILES}).")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a random network and write samples of it to a file."""
    _check_simulated(out, labels, truth)
    rng = np.random.default_rng(seed)
    size: dict[str, Any] = {"bias_scale": bias_scale, "activation": activation, "rng": rng}
    network = _network_of(units, features, outputs, **size)
    with StageProgress(stderr(), quiet=quiet) as progress:
        progress("Drawing samples", -1)
        X, y = sample(network, samples, noise=noise, rng=rng)
        progress("Writing samples", -1)
        save_samples(out, X, y, labels)
        if truth is not None:
            network.save(truth)
    written = {"samples": out, "labels": labels, "truth": truth}
    if json:
        typer.echo(show.to_json(written))
    elif not quiet:
        names = ", ".join(str(path) for path in written.values() if path is not None)
        note(f"Wrote {counted(samples, 'sample')} of {show.describe(network)}: {names}")


def _network_of(widths: tuple[int, ...], features: int, outputs: int, **options: Any) -> Network:
    """With one hidden layer, or a deep one."""
    if len(widths) == 1:
        return random_network_of(widths[0], features, outputs, **options)
    return random_network(widths, features, outputs=None if outputs == 1 else outputs, **options)


def _check_simulated(out: Path, labels: Path | None, truth: Path | None) -> None:
    check_pairing(out, labels)
    check_network_to_write(truth)
    check_written((out, labels, truth))
