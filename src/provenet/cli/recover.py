"""What `provenet recover` does: read samples from files, recover, show and write what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.cli.ending import exit_unless, note, stderr, stdout
from provenet.cli.options import with_method_options
from provenet.cli.shared import (
    FILES,
    LIMITS,
    MODEL,
    Json,
    Link,
    NetworkOut,
    Quiet,
    ReportFile,
    Seed,
    Truth,
    Widths,
    check_network_to_write,
    check_reported,
    check_written,
    command_line,
    depth,
    error_of,
    finite,
    load_any_network_file,
    save_result,
    summary_of,
)
from provenet.common.exceptions import InvalidInput
from provenet.common.progress import StageProgress
from provenet.common.words import counted
from provenet.data.files import check_mask_name, open_samples
from provenet.data.sources import Source
from provenet.networks.network import Network
from provenet.recover import recover as recover_network
from provenet.report import console as show
from provenet.report import write_report
from provenet.validation import OPEN


@with_method_options
def recover(
    samples: Annotated[
        Path,
        typer.Argument(
            metavar="SAMPLES",
            help=".npz, .h5 or .zarr (X, y), .csv, .tsv or .parquet (y last), or .npy for X.",
        ),
    ],
    labels: Annotated[
        Path | None, typer.Argument(metavar="LABELS", help="y when SAMPLES is .npy.")
    ] = None,
    units: Widths = None,
    layers: Annotated[
        Any,
        typer.Option(
            parser=depth,
            metavar="NUMBER",
            help="Number of hidden layers; auto tries one, then two, then three.",
            rich_help_panel=MODEL,
        ),
    ] = "1",
    outputs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of outputs: the last columns of a .csv or .parquet.",
            rich_help_panel=FILES,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Label column of a table, if not the last; repeatable.",
            rich_help_panel=FILES,
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="See: provenet methods.")] = "auto",
    activation: Annotated[
        str,
        typer.Option(
            help="Of the units, or the method's own; auto finds it; of leaky_relu the slope.",
            rich_help_panel=MODEL,
        ),
    ] = "relu",
    link: Link = OPEN,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=finite,
            help="Label noise, if known; else estimated.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            min=0, callback=finite, help="Seconds to go on trying.", rich_help_panel=LIMITS
        ),
    ] = 120.0,
    out: NetworkOut = None,
    corrupted: Annotated[
        Path | None,
        typer.Option(
            help="Write which labels were set aside here (.npy or .npz).", rich_help_panel=FILES
        ),
    ] = None,
    truth: Truth = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Keep long passes here: started again, it goes on.", rich_help_panel=FILES
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Add up on a Dask cluster: tcp://host:8786.", rich_help_panel=LIMITS),
    ] = None,
    report: ReportFile = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Recover a network from samples in files."""
    check_network_to_write(out)
    if corrupted is not None:
        check_mask_name(corrupted)
    check_reported(report)
    check_written((out, corrupted, checkpoint, report), inputs=(samples, labels, truth))
    with StageProgress(stderr(), quiet=quiet) as progress, _engine(scheduler) as spread:
        progress("Reading samples", -1)
        source = spread(open_samples(samples, labels, outputs, target))
        known = None if truth is None else _load_truth(truth, source.features, source.outputs or 1)
        result = recover_network(
            source,
            units=units[0] if units is not None and len(units) == 1 else units,
            layers=layers,
            method=method,
            activation=activation,
            noise=noise,
            link=link,
            rng=seed,
            progress=progress,
            budget=budget,
            checkpoint=checkpoint,
            **options,
        )
        if report is not None:
            progress("Writing the report", -1)
            write_report(report, result, source, truth=known, command=command_line(), seed=seed)
    error = None if known is None else error_of(result, known)
    if json:
        extra = {} if error is None else {"parameter_error": error}
        typer.echo(show.to_json(summary_of(result, **extra)))
    else:
        show.report(stdout(), result, known, error, quiet)
    save_result(result, out, corrupted, quiet)
    if report is not None:
        note(f"Wrote {report}", quiet)
    exit_unless(result.success)


@contextmanager
def _engine(scheduler: str | None) -> Iterator[Callable[[Source], Source]]:
    """What sums run on: the cores of this machine, or a cluster that reads the same files."""
    if scheduler is None:
        yield lambda source: source
        return
    from provenet.data.dask import DaskFiles, cluster

    with cluster(scheduler):
        yield DaskFiles


def _load_truth(path: Path, features: int, outputs: int) -> Network:
    truth = load_any_network_file(path)
    two_columns = truth.link == "logit" and (truth.outputs or 1) == 1 and outputs == 2
    own = truth.features, 2 if two_columns else truth.outputs or 1
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
