"""The command line: `provenet demo | simulate | recover | compare | methods`.

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
from typing import Annotated, Any, NoReturn, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

import provenet
from provenet import console as show
from provenet.datasets import random_network, sample
from provenet.exceptions import InvalidInput
from provenet.files import check_writable
from provenet.io import check_pairing, load_samples, save_samples
from provenet.matching import parameter_error
from provenet.networks import Network, load_network
from provenet.progress import StageProgress
from provenet.recover import DEFAULT_BUDGET, METHODS
from provenet.recover import recover as recover_network
from provenet.result import Recovery, Status

BAD_INPUT, NOT_RECOVERED, INTERRUPTED = 2, 3, 130
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
            _fail(str(error), BAD_INPUT)
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{error.strerror or error}.", BAD_INPUT)
        except MemoryError:
            _fail(
                "There is not enough memory: use fewer samples or memory-mapped .npy files.",
                BAD_INPUT,
            )
        except KeyboardInterrupt:
            _fail("Interrupted: no file was left half written.", INTERRUPTED, title="")

    return app.command()(guarded)  # type: ignore[return-value]


def _fail(message: str, code: int, title: str = "Error: ") -> NoReturn:
    _stderr().print(Text.assemble((title, "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)


def _stdout() -> Console:
    return Console(highlight=False)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"provenet {provenet.__version__}")
        raise typer.Exit


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="One line of result, no progress.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Features = Annotated[int, typer.Option(min=1, help="Number of inputs.")]
Units = Annotated[int, typer.Option(min=1, help="Number of hidden units.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of samples.")]
Noise = Annotated[
    float, typer.Option(min=0, callback=_finite, help="Standard deviation of the label noise.")
]


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
    samples: Samples = 1000,
    noise: Noise = 0.0,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a random network, hide it, and recover it from its samples."""
    rng = np.random.default_rng(seed)
    truth = random_network(units, features, bias_scale=1.5, rng=rng)
    truth = truth.replace(output_bias=rng.standard_normal())
    out = _stdout()
    if not (json or quiet):
        show.introduce(out, truth, samples, noise)
    with StageProgress(_stderr(), quiet=quiet) as progress:
        X, y = sample(truth, samples, noise=noise, rng=rng)
        began = time.perf_counter()
        result = recover_network(X, y, rng=seed, progress=progress)
        seconds = time.perf_counter() - began
    error = _error(result, truth)
    if json:
        typer.echo(show.to_json(_summary(result, parameter_error=error, truth=truth.canonical())))
    elif quiet:
        out.print(
            show.status_line(result), f"Parameter error: {show.small(error)}.", soft_wrap=True
        )
    else:
        show.reveal(out, result, truth, error, seconds)
    # The truth is known here, so a certificate that is wrong does not pass.
    right = error <= _EXACT if result.status is Status.EXACT else math.isfinite(error)
    _exit_unless(result.success and right)


@command
def simulate(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="Samples to write: .npz, .csv, or .npy for X alone."),
    ],
    features: Features = 20,
    units: Units = 10,
    samples: Samples = 1000,
    noise: Noise = 0.0,
    bias_scale: Annotated[
        float, typer.Option(min=0, callback=_finite, help="Biases lie between minus this and this.")
    ] = 1.5,
    labels: Annotated[Path | None, typer.Option(help="Where y goes when OUT is .npy.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Write the true network here (.npz).")] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a random network and write samples of it to a file."""
    _check_outputs(out, labels, truth)
    rng = np.random.default_rng(seed)
    network = random_network(units, features, bias_scale=bias_scale, rng=rng)
    network = network.replace(output_bias=rng.standard_normal())
    with StageProgress(_stderr(), quiet=quiet) as progress:
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
        _note(f"Wrote {samples:,} samples of {show.describe(network)}: {names}")


def _check_outputs(out: Path, labels: Path | None, truth: Path | None) -> None:
    check_pairing(out, labels)
    paths = [path for path in (out, labels, truth) if path is not None]
    for path in paths:
        check_writable(path)
    if truth is not None:
        _check_network_name(truth)
    if len({path.resolve() for path in paths}) < len(paths):
        raise InvalidInput("Two outputs have the same name: give each a name of its own.")


def _check_network_name(path: Path) -> None:
    if path.suffix.lower() != ".npz":
        raise InvalidInput(f"{path} cannot hold a network: give it a name that ends in .npz.")


@command
def recover(
    samples: Annotated[
        Path, typer.Argument(metavar="SAMPLES", help=".npz (X, y), .csv (y last), or .npy for X.")
    ],
    labels: Annotated[
        Path | None, typer.Argument(metavar="LABELS", help="y when SAMPLES is .npy.")
    ] = None,
    units: Annotated[
        int | None, typer.Option(min=1, help="Number of units; found when not given.")
    ] = None,
    method: Annotated[str, typer.Option(help="See: provenet methods.")] = "auto",
    noise: Annotated[
        float | None,
        typer.Option(min=0, callback=_finite, help="Label noise, if known; else estimated."),
    ] = None,
    budget: Annotated[
        float, typer.Option(min=0, callback=_finite, help="Seconds to go on trying.")
    ] = DEFAULT_BUDGET,
    faithful: Annotated[
        bool, typer.Option("--faithful", help="The paper's algorithm as is.")
    ] = False,
    no_refine: Annotated[
        bool, typer.Option("--no-refine", help="The method's own answer, not refined.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the network here (.npz).")] = None,
    truth: Annotated[Path | None, typer.Option(help="The true network, to compare (.npz).")] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recover a network from samples in files."""
    _check_network_output(out, (samples, labels, truth))
    with StageProgress(_stderr(), quiet=quiet) as progress:
        progress("Reading samples", -1)
        X, y = load_samples(samples, labels)
        known = None if truth is None else _load_truth(truth, X.shape[1])
        result = recover_network(
            X,
            y,
            units=units,
            method=method,
            noise=noise,
            rng=seed,
            progress=progress,
            budget=budget,
            faithful=faithful,
            refine=not no_refine,
        )
    error = None if known is None else _error(result, known)
    if json:
        extra = {} if error is None else {"parameter_error": error}
        typer.echo(show.to_json(_summary(result, **extra)))
    else:
        show.report(_stdout(), result, known, error, quiet)
    _save_result(result, out, quiet)
    _exit_unless(result.success)


def _check_network_output(out: Path | None, inputs: tuple[Path | None, ...]) -> None:
    if out is None:
        return
    _check_network_name(out)
    check_writable(out)
    if any(path is not None and path.resolve() == out.resolve() for path in inputs):
        raise InvalidInput(f"{out} is also an input: give the network a name of its own.")


def _load_truth(path: Path, features: int) -> Network:
    truth = load_network(path)
    if truth.features != features:
        raise InvalidInput(
            f"{path} has {truth.features} features but the samples have {features}: "
            "give the network that made them."
        )
    return truth


def _save_result(result: Recovery, out: Path | None, quiet: bool) -> None:
    if out is None:
        return
    if result.network is None or result.status is Status.FAILED:
        _note(f"Nothing was recovered, so {out} was not written.", quiet)
    else:
        result.network.save(out)
        _note(f"Wrote {out}", quiet)


@command
def compare(
    estimate: Annotated[Path, typer.Argument(metavar="ESTIMATE", help="A network file.")],
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="The network file to compare it with.")
    ],
    tolerance: Annotated[
        float, typer.Option(min=0, callback=_finite, help="Largest parameter error to accept.")
    ] = _EXACT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two network files, unit by unit."""
    networks = load_network(estimate), load_network(truth)
    _check_comparable(estimate, truth, *networks)
    error = parameter_error(*networks)
    same = error <= tolerance
    out = _stdout()
    if json:
        answer = {"parameter_error": error, "tolerance": tolerance, "within_tolerance": same}
        typer.echo(show.to_json({**answer, "units": [network.units for network in networks]}))
    elif not quiet:
        out.print(show.side_by_side(out, *networks, ("truth", "estimate")))
        out.print()
    if not json:
        verdict = "within" if same else "not within"
        why = show.why_infinite(*networks)
        out.print(f"Parameter error: {show.small(error)}{why}, {verdict} {tolerance:g}")
    _exit_unless(same)


def _check_comparable(first: Path, second: Path, a: Network, b: Network) -> None:
    for what in ("features", "outputs", "activation"):
        left, right = getattr(a, what), getattr(b, what)
        if what == "activation":
            left, right = left.name, right.name
        if left != right:
            raise InvalidInput(
                f"{first} and {second} differ in {what} ({left} and {right}): "
                "compare networks of the same kind."
            )


@command
def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the methods, what they need and the papers they come from."""
    if json:
        typer.echo(show.to_json([show.about(method) for method in METHODS.values()]))
    elif quiet:
        typer.echo("\n".join(METHODS))
    else:
        out = _stdout()
        out.print(show.methods_table(METHODS.values()))


def _error(result: Recovery, truth: Network) -> float:
    return math.inf if result.network is None else parameter_error(result.network, truth)


def _summary(result: Recovery, **extra: Any) -> dict[str, Any]:
    fields = ("status", "success", "message", "method", "network", "standard_errors")
    more = ("certificate", "ambiguities", "timings")
    return {**{name: getattr(result, name) for name in (*fields, *more)}, **extra}


def _note(message: str, quiet: bool = False) -> None:
    if not quiet:
        _stderr().print(Text(message), soft_wrap=True)


def _exit_unless(success: bool) -> None:
    if not success:
        raise typer.Exit(NOT_RECOVERED)
