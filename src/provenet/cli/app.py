"""The command line: `provenet demo | simulate | recover | extract | compare | identify | methods`.

Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 2 usage or bad input,
3 not recovered, 130 interrupted.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from provenet.certify.checks import Status
from provenet.cli.extract import extract
from provenet.cli.identify import identify as show_identifiability
from provenet.cli.progress import StageProgress
from provenet.cli.recover import recover
from provenet.cli.shared import (
    BAD_INPUT,
    INTERRUPTED,
    NETWORK_FILES,
    NOT_RECOVERED,
    Features,
    Json,
    Noise,
    Outputs,
    Quiet,
    Samples,
    Seed,
    Units,
    check_network_to_write,
    check_written,
    error_of,
    exit_unless,
    fail,
    finite,
    load_network_file,
    note,
    stderr,
    stdout,
    summary_of,
)
from provenet.common.exceptions import ClusterLost, EndpointLost, InvalidInput
from provenet.common.version import __version__
from provenet.common.words import counted
from provenet.data.sample_files.door import check_pairing, save_samples
from provenet.data.sample_files.spool import remove_spools
from provenet.datasets import random_network, sample
from provenet.networks.matching import parameter_error
from provenet.networks.network import Network
from provenet.recover import METHODS
from provenet.recover import recover as recover_network
from provenet.report import console as show
from provenet.report import tables

_EXACT = 1e-8

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Recover the weights of a neural network from samples of what it does.",
    epilog="Start with: provenet demo",
)
Command = TypeVar("Command", bound=Callable[..., None])


def main() -> None:
    """Run the command line; the process ends with one of the exit codes above."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ± shows a question mark
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave_at_once()
        raise


def _leave_at_once() -> None:
    """End without waiting, as the interpreter would, for threads that still add up samples."""
    remove_spools()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def command(function: Command) -> Command:
    """Register a command whose errors are one sentence on stderr and an exit code."""

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> None:
        try:
            function(*args, **options)
        except InvalidInput as error:
            fail(str(error), BAD_INPUT)
        except (ClusterLost, EndpointLost) as error:
            fail(str(error), NOT_RECOVERED)
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}.", BAD_INPUT)
        except MemoryError:
            fail(
                "There is not enough memory: use fewer samples or memory-mapped .npy files.",
                BAD_INPUT,
            )
        except KeyboardInterrupt:
            fail("Interrupted: no file was left half written.", INTERRUPTED, title="")

    return app.command()(guarded)  # type: ignore[return-value]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"provenet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Recover the weights of a neural network from samples of what it does."""


@command
def demo(
    features: Features = 20,
    units: Units = 10,
    outputs: Outputs = 1,
    samples: Samples = 1000,
    noise: Noise = 0.0,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a random network, hide it, and recover it from its samples."""
    rng = np.random.default_rng(seed)
    truth = _random_network(units, features, outputs, bias_scale=1.5, rng=rng)
    out = stdout()
    if not (json or quiet):
        show.introduce(out, truth, samples, noise)
    with StageProgress(stderr(), quiet=quiet) as progress:
        X, y = sample(truth, samples, noise=noise, rng=rng)
        began = time.perf_counter()
        result = recover_network(X, y, rng=seed, progress=progress)
        seconds = time.perf_counter() - began
    error = error_of(result, truth)
    if json:
        typer.echo(show.to_json(summary_of(result, parameter_error=error, truth=truth.canonical())))
    elif quiet:
        out.print(
            show.status_line(result), f"Parameter error: {tables.small(error)}.", soft_wrap=True
        )
    else:
        show.reveal(out, result, truth, error, seconds)
    # The truth is known here, so a certificate that is wrong does not pass.
    right = error <= _EXACT if result.status is Status.EXACT else math.isfinite(error)
    exit_unless(result.success and right)


def _random_network(
    units: int, features: int, outputs: int, *, rng: np.random.Generator, **options: Any
) -> Network:
    """A random network with an output bias; labels of one output are plain numbers."""
    several = None if outputs == 1 else outputs
    network = random_network(units, features, outputs=several, rng=rng, **options)
    return network.replace(output_bias=rng.standard_normal(several))


@command
def simulate(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Samples to write: .npz, .csv, .parquet, .h5, .zarr, or .npy for X alone.",
        ),
    ],
    features: Features = 20,
    units: Units = 10,
    outputs: Outputs = 1,
    activation: Annotated[
        str, typer.Option(help='Of the units: relu, leaky_relu, "leaky_relu(0.2)", abs, relu2, ...')
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
    network = _random_network(
        units, features, outputs, bias_scale=bias_scale, activation=activation, rng=rng
    )
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


def _check_simulated(out: Path, labels: Path | None, truth: Path | None) -> None:
    check_pairing(out, labels)
    check_network_to_write(truth)
    check_written((out, labels, truth))


command(recover)
command(extract)


@command
def compare(
    estimate: Annotated[
        Path, typer.Argument(metavar="ESTIMATE", help=f"A network file ({NETWORK_FILES}).")
    ],
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="The network file to compare it with.")
    ],
    tolerance: Annotated[
        float, typer.Option(min=0, callback=finite, help="Largest parameter error to accept.")
    ] = _EXACT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two network files, unit by unit."""
    networks = load_network_file(estimate), load_network_file(truth)
    _check_comparable(estimate, truth, *networks)
    error = parameter_error(*networks)
    same = error <= tolerance
    out = stdout()
    if json:
        answer = {"parameter_error": error, "tolerance": tolerance, "within_tolerance": same}
        units = [network.units for network in networks]
        activations = [network.activation for network in networks]
        typer.echo(show.to_json({**answer, "units": units, "activations": activations}))
    elif not quiet:
        out.print(tables.side_by_side(out, *networks, ("truth", "estimate")))
        out.print()
    if not json:
        verdict = "within" if same else "not within"
        why = show.why_infinite(*networks)
        out.print(f"Parameter error: {tables.small(error)}{why}, {verdict} {tolerance:g}")
    exit_unless(same)


def _check_comparable(first: Path, second: Path, a: Network, b: Network) -> None:
    kinds = {
        "features": (a.features, b.features),
        "outputs": (a.outputs or 1, b.outputs or 1),
        "activation": (a.activation.family, b.activation.family),
    }
    for what, (left, right) in kinds.items():
        if left != right:
            raise InvalidInput(
                f"{first} and {second} differ in {what} ({left} and {right}): "
                "compare networks of the same kind."
            )


@command
def identify(
    network: Annotated[
        Path, typer.Argument(metavar="NETWORK", help=f"A network file ({NETWORK_FILES}).")
    ],
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many samples there will be; else any number.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what of a network its samples can tell, and which methods apply."""
    show_identifiability(stdout(), load_network_file(network), samples, json)


@command
def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the methods, what they need and the papers they come from."""
    if json:
        typer.echo(show.to_json([show.about(method) for method in METHODS.values()]))
    elif quiet:
        typer.echo("\n".join(METHODS))
    else:
        out = stdout()
        out.print(show.methods_table(METHODS.values()))
