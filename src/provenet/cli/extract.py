"""What `provenet extract` does: ask a model until its weights are known, and show them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.certify.result import Recovery
from provenet.cli.ending import exit_unless, note, stderr, stdout
from provenet.cli.progress import StageProgress
from provenet.cli.shared import (
    Json,
    Quiet,
    ReportFile,
    Seed,
    check_network_to_write,
    check_reported,
    check_written,
    command_line,
    depth,
    error_of,
    load_any_network_file,
    save_result,
    summary_of,
    widths,
)
from provenet.common.exceptions import InvalidInput
from provenet.common.words import counted
from provenet.extract import extract as extract_network
from provenet.extraction.clients.base import counted_queries
from provenet.extraction.oracle import Oracle, open_oracle
from provenet.networks.any_network import AnyNetwork
from provenet.report import console as show
from provenet.report import write_report
from provenet.validation import OPEN

_ADDRESS = "://"


def extract(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A file (.onnx, or TorchScript .pt, .pts) or an address (http)."
        ),
    ],
    features: Annotated[
        int | None,
        typer.Option(min=1, help="Number of inputs; only needed if the model does not tell."),
    ] = None,
    outputs: Annotated[
        int | None, typer.Option(min=1, help="Number of outputs; found when not given.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Name or number of the output to ask, of several.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Most answers to use, those of the cache included.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after so long with what was found until then.")
    ] = None,
    activation: Annotated[
        str, typer.Option(help="Of the units, such as tanh; auto finds it.")
    ] = OPEN,
    noise: Annotated[
        float | None, typer.Option(min=0, help="Noise of the answers, if known; else estimated.")
    ] = None,
    units: Annotated[
        Any,
        typer.Option(
            parser=widths,
            metavar="WIDTHS",
            help="Number of units; 16,8 for two hidden layers of so many; found when not given.",
        ),
    ] = None,
    layers: Annotated[
        Any,
        typer.Option(
            parser=depth,
            metavar="NUMBER",
            help="Number of hidden layers; auto finds it where answers are exact.",
        ),
    ] = OPEN,
    low: Annotated[float | None, typer.Option(help="Ask no input below this.")] = None,
    high: Annotated[float | None, typer.Option(help="Ask no input above this.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Keep answers here: started again, it goes on.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the network here (.npz, .safetensors or .onnx)."),
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="The true network, to compare.")] = None,
    report: ReportFile = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds a request to an address may take.")
    ] = 30.0,
    retries: Annotated[
        int, typer.Option(min=0, help="How often a request that failed is tried again.")
    ] = 5,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recover the network in a model that may be asked: a file or an address."""
    check_network_to_write(out)
    read = None if _ADDRESS in model else Path(model)
    check_reported(report)
    check_written((out, cache, report), inputs=(read, truth))
    known = None if truth is None else load_any_network_file(truth)
    with StageProgress(stderr(), quiet=quiet) as progress:
        progress("Opening the model", -1)
        oracle = open_oracle(
            model,
            features,
            outputs=outputs if known is None else outputs or known.outputs or 1,
            budget=budget,
            cache=cache,
            low=low,
            high=high,
            timeout=timeout,
            retries=retries,
            output=output,
        )
        _check_truth(truth, known, oracle)
        result = extract_network(
            oracle,
            seconds=seconds,
            activation=activation,
            noise=noise,
            units=units[0] if units is not None and len(units) == 1 else units,
            layers=layers,
            rng=seed,
            progress=progress,
        )
        if report is not None:
            progress("Writing the report", -1)
            made_by = command_line({model: oracle.name})
            write_report(report, result, truth=known, command=made_by, seed=seed)
    error = None if known is None else error_of(result, known)
    if json:
        extra = {} if error is None else {"parameter_error": error}
        typer.echo(show.to_json(summary_of(result, cached=oracle.cached, **extra)))
    else:
        show.report(stdout(), result, known, error, quiet)
        if not quiet:
            stdout().print(cost(result, oracle), soft_wrap=True)
    save_result(result, out, None, quiet)
    if report is not None:
        note(f"Wrote {report}", quiet)
    exit_unless(result.success)


def cost(result: Recovery, oracle: Oracle) -> str:
    """Queries beside parameters, in words."""
    found = 0 if result.network is None else result.network.free_parameters
    cached = f" ({oracle.cached:,} taken from the cache)" if oracle.cached else ""
    return f"{counted_queries(oracle.used)} for {counted(found, 'parameter')}{cached}"


def _check_truth(path: Path | None, truth: AnyNetwork | None, oracle: Oracle) -> None:
    if truth is None:
        return
    own, asked = (truth.features, truth.outputs), (oracle.features, oracle.outputs)
    if own != asked:
        sizes = [
            f"{counted(features, 'feature')} and {counted(outputs or 1, 'output')}"
            for features, outputs in (own, asked)
        ]
        raise InvalidInput(
            f"{path} has {sizes[0]} but {oracle.name} has {sizes[1]}: give the network that it "
            "should be."
        )
