"""The command line: `provenet demo | simulate | recover | extract | compare | identify | methods`.

Results go to stdout, progress and messages to stderr. Exit codes: 0 success, 2 usage or bad input,
3 not recovered, 130 interrupted.
"""

from __future__ import annotations

import functools
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

import provenet
from provenet import console as show
from provenet import tables
from provenet.cli_extract import extract
from provenet.cli_identify import identify as show_identifiability
from provenet.datasets import random_network, sample
from provenet.exceptions import ClusterLost, EndpointLost, InvalidInput
from provenet.files import check_writable
from provenet.io import check_mask_name, check_pairing, open_samples, save_mask, save_samples
from provenet.matching import parameter_error
from provenet.network_formats import check_network_name
from provenet.networks import Network, load_network
from provenet.progress import StageProgress
from provenet.recover import DEFAULT_BUDGET, METHODS
from provenet.recover import recover as recover_network
from provenet.report import check_report, write_report
from provenet.result import Recovery, Status
from provenet.sample_formats.spool import remove_spools
from provenet.sources import Source
from provenet.words import counted

BAD_INPUT, NOT_RECOVERED, INTERRUPTED = 2, 3, 130
_EXACT = 1e-8
NETWORK_FILES = ".npz, .safetensors or .onnx"

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
            _fail(str(error), BAD_INPUT)
        except (ClusterLost, EndpointLost) as error:
            _fail(str(error), NOT_RECOVERED)
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
Outputs = Annotated[int, typer.Option(min=1, help="Number of outputs.")]
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
            show.status_line(result), f"Parameter error: {tables.small(error)}.", soft_wrap=True
        )
    else:
        show.reveal(out, result, truth, error, seconds)
    # The truth is known here, so a certificate that is wrong does not pass.
    right = error <= _EXACT if result.status is Status.EXACT else math.isfinite(error)
    _exit_unless(result.success and right)


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
        float, typer.Option(min=0, callback=_finite, help="Biases lie between minus this and this.")
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
        _note(f"Wrote {counted(samples, 'sample')} of {show.describe(network)}: {names}")


def _check_simulated(out: Path, labels: Path | None, truth: Path | None) -> None:
    check_pairing(out, labels)
    _check_network_name(truth)
    _check_written((out, labels, truth))


def _check_network_name(path: Path | None) -> None:
    if path is not None:
        check_network_name(path)


def _check_written(paths: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise before any work is done if a file could not be written or would replace another."""
    read = {path.resolve() for path in inputs if path is not None}
    written = [path for path in paths if path is not None]
    for path in written:
        check_writable(path)
        if path.resolve() in read:
            raise InvalidInput(f"{path} is also an input: give what is written another name.")
    if len({path.resolve() for path in written}) < len(written):
        raise InvalidInput("Two files to write have the same name: give each a name of its own.")


@command
def recover(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help=".npz, .h5 or .zarr (X, y), .csv or .parquet (y last), or .npy for X.",
        ),
    ],
    labels: Annotated[
        Path | None, typer.Argument(metavar="LABELS", help="y when SAMPLES is .npy.")
    ] = None,
    units: Annotated[
        int | None, typer.Option(min=1, help="Number of units; found when not given.")
    ] = None,
    outputs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of outputs: the last columns of a .csv or .parquet."),
    ] = None,
    method: Annotated[str, typer.Option(help="See: provenet methods.")] = "auto",
    activation: Annotated[
        str,
        typer.Option(help="Of the units, or the method's own; of leaky_relu the slope is found."),
    ] = "relu",
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
    objective: Annotated[
        str, typer.Option(help="For the method landscape: G, F, f2f4, abs, l2, ...")
    ] = "auto",
    threshold: Annotated[
        float | None, typer.Option(help="For methods of the lowest layer; else estimated.")
    ] = None,
    order: Annotated[
        int | None, typer.Option(min=1, help="For the method overcomplete: moments up to 2l + 2.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=f"Write the network here ({NETWORK_FILES}).")
    ] = None,
    corrupted: Annotated[
        Path | None, typer.Option(help="Write which labels were set aside here (.npy or .npz).")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help=f"The true network, to compare ({NETWORK_FILES}).")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep long passes here: started again, it goes on.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Add up on a Dask cluster: tcp://host:8786.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with pictures here (.html).")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recover a network from samples in files."""
    _check_network_name(out)
    if corrupted is not None:
        check_mask_name(corrupted)
    if report is not None:
        check_report(report)
    _check_written((out, corrupted, checkpoint, report), inputs=(samples, labels, truth))
    with StageProgress(_stderr(), quiet=quiet) as progress, _engine(scheduler) as spread:
        progress("Reading samples", -1)
        source = spread(open_samples(samples, labels, outputs))
        known = None if truth is None else _load_truth(truth, source.features, source.outputs or 1)
        result = recover_network(
            source,
            units=units,
            method=method,
            activation=activation,
            noise=noise,
            rng=seed,
            progress=progress,
            budget=budget,
            faithful=faithful,
            refine=not no_refine,
            objective=objective,
            threshold=threshold,
            order=order,
            checkpoint=checkpoint,
        )
        if report is not None:
            progress("Writing the report", -1)
            made_by = shlex.join(["provenet", *sys.argv[1:]])
            write_report(report, result, source, truth=known, command=made_by, seed=seed)
    error = None if known is None else _error(result, known)
    if json:
        extra = {} if error is None else {"parameter_error": error}
        typer.echo(show.to_json(_summary(result, **extra)))
    else:
        show.report(_stdout(), result, known, error, quiet)
    _save_result(result, out, corrupted, quiet)
    if report is not None:
        _note(f"Wrote {report}", quiet)
    _exit_unless(result.success)


@contextmanager
def _engine(scheduler: str | None) -> Iterator[Callable[[Source], Source]]:
    """What sums run on: the cores of this machine, or a cluster that reads the same files."""
    if scheduler is None:
        yield lambda source: source
        return
    from provenet.sources.dask import DaskFiles, cluster

    with cluster(scheduler):
        yield DaskFiles


command(extract)


def _load_network(path: Path) -> Network:
    """A network file; one output as a row of its own is the same as plain labels."""
    network = load_network(path)
    if network.outputs != 1:
        return network
    linear = None if network.linear is None else network.linear[0]
    return network.replace(
        output_weights=network.output_weights[0],
        output_bias=np.ravel(network.output_bias)[0],
        linear=linear,
    )


def _load_truth(path: Path, features: int, outputs: int) -> Network:
    truth = _load_network(path)
    own = truth.features, truth.outputs or 1
    if own != (features, outputs):
        sizes = " and ".join(map(counted, own, ("feature", "output")))
        way_out = (
            f"give --outputs {own[1]}"
            if sum(own) == features + outputs
            else "give the network that made them"
        )
        raise InvalidInput(
            f"{path} has {sizes} but the samples have {features:,} and {outputs:,}: {way_out}."
        )
    return truth


def _save_result(result: Recovery, out: Path | None, corrupted: Path | None, quiet: bool) -> None:
    network = None if result.status is Status.FAILED else result.network
    mask = None if network is None else result.corrupted
    if out is not None and network is not None:
        network.save(out)
        _note(f"Wrote {out}", quiet)
    elif out is not None:
        _note(f"Nothing was recovered, so {out} was not written.", quiet)
    if corrupted is not None and mask is not None:
        save_mask(corrupted, mask)
        _note(f"Wrote {corrupted}", quiet)
    elif corrupted is not None:
        _note(f"No labels were set aside, so {corrupted} was not written.", quiet)


@command
def compare(
    estimate: Annotated[
        Path, typer.Argument(metavar="ESTIMATE", help=f"A network file ({NETWORK_FILES}).")
    ],
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
    networks = _load_network(estimate), _load_network(truth)
    _check_comparable(estimate, truth, *networks)
    error = parameter_error(*networks)
    same = error <= tolerance
    out = _stdout()
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
    _exit_unless(same)


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
    show_identifiability(_stdout(), _load_network(network), samples, json)


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
    more = ("certificate", "ambiguities", "timings", "layer", "layered", "queries")
    mask = result.corrupted
    count = None if mask is None else int(np.count_nonzero(mask))
    values = {name: getattr(result, name) for name in (*fields, *more)}
    landscape = None if result.landscape is None else result.landscape.summary()
    return {**values, "corrupted": count, "landscape": landscape, **extra}


def _note(message: str, quiet: bool = False) -> None:
    if not quiet:
        _stderr().print(Text(message), soft_wrap=True)


def _exit_unless(success: bool) -> None:
    if not success:
        raise typer.Exit(NOT_RECOVERED)
