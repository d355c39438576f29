"""What `provenet extract` does: ask a model until its weights are known, and show them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from provenet.certify.result import Recovery
from provenet.cli.ending import exit_unless, note, stderr, stdout
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
    limits,
    load_any_network_file,
    save_result,
    summary_of,
)
from provenet.common.exceptions import InvalidInput
from provenet.common.progress import StageProgress
from provenet.common.words import counted
from provenet.extract import extract as extract_network
from provenet.extraction.clients.base import counted_queries
from provenet.extraction.clients.endpoint import Endpoint
from provenet.extraction.oracle import Oracle, open_oracle
from provenet.networks.network import Network
from provenet.report import console as show
from provenet.report import write_report
from provenet.validation import OPEN

_ADDRESS, _SERVER = "://", "An address"


def extract(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A file (.onnx, or TorchScript .pt, .pts) or an address (http)."
        ),
    ],
    features: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of inputs; only needed if the model does not tell.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    outputs: Annotated[
        int | None,
        typer.Option(min=1, help="Number of outputs; found when not given.", rich_help_panel=MODEL),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            help="Name or number of the output to ask, of several.", rich_help_panel=MODEL
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most answers to use, those of the cache included.", rich_help_panel=LIMITS
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Stop after so long with what was found until then.", rich_help_panel=LIMITS
        ),
    ] = None,
    activation: Annotated[
        str, typer.Option(help="Of the units, such as tanh; auto finds it.", rich_help_panel=MODEL)
    ] = OPEN,
    link: Link = OPEN,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0, help="Noise of the answers, if known; else estimated.", rich_help_panel=MODEL
        ),
    ] = None,
    units: Widths = None,
    layers: Annotated[
        Any,
        typer.Option(
            parser=depth,
            metavar="NUMBER",
            help="Number of hidden layers; auto finds it where answers are exact.",
            rich_help_panel=MODEL,
        ),
    ] = OPEN,
    low: Annotated[
        Any,
        typer.Option(
            parser=limits,
            metavar="NUMBERS",
            help="Ask no input below this; 0,-2.5,10 for one number a feature.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    high: Annotated[
        Any,
        typer.Option(
            parser=limits,
            metavar="NUMBERS",
            help="Ask no input above this, or these.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Keep answers here: started again, it goes on.", rich_help_panel=FILES),
    ] = None,
    out: NetworkOut = None,
    truth: Truth = None,
    report: ReportFile = None,
    timeout: Annotated[
        float,
        typer.Option(help="Seconds a request may take.", rich_help_panel=_SERVER),
    ] = 30.0,
    retries: Annotated[
        int,
        typer.Option(
            min=0, help="How often a request that failed is tried again.", rich_help_panel=_SERVER
        ),
    ] = 5,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="What to send, with {inputs} or {data}, {rows}, {features} in it: "
            "'{\"instances\": {inputs}}'.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Where the answer is: predictions, outputs.0.data.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME: TEXT'",
            help="To send as well; as many as wanted. Kept nowhere.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Variable that holds a token to send (Authorization: Bearer).",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="float32|float64",
            help="What the server computes in: questions are rounded to it.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recover the network in a model that may be asked: a file or an address."""
    check_network_to_write(out)
    read = None if _ADDRESS in model else Path(model)
    check_reported(report)
    check_written((out, cache, report), inputs=(read, truth))
    endpoint = _endpoint(model, request, answer, header, token_env, dtype)
    known = None if truth is None else load_any_network_file(truth)
    with StageProgress(stderr(), quiet=quiet) as progress:
        progress("Opening the model", -1)
        oracle = open_oracle(
            endpoint or model,
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
            link=link,
            rng=seed,
            progress=progress,
        )
        if report is not None:
            progress("Writing the report", -1)
            made_by = command_line({model: oracle.name, **dict(map(_without_text, header or ()))})
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


def _endpoint(
    model: str,
    request: str | None,
    answer: str | None,
    header: list[str] | None,
    token_env: str | None,
    dtype: str | None,
) -> Endpoint | None:
    """How an address is asked, if that was said."""
    headers = dict(map(_named_text, header)) if header else None
    said = {
        "request": request,
        "answer": answer,
        "headers": headers,
        "token_env": token_env,
        "dtype": dtype,
    }
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if not given:
        return None
    if _ADDRESS not in model:
        raise InvalidInput(
            f"{model} is a file: --request, --answer, --header, --token-env and --dtype are for "
            "addresses."
        )
    return Endpoint(model, **given)


def _named_text(header: str) -> tuple[str, str]:
    name, colon, text = header.partition(":")
    if not colon or not name.strip():
        raise InvalidInput("A header is a name and a text with a colon between: 'X-Key: ...'.")
    return name.strip(), text.strip()


def _without_text(header: str) -> tuple[str, str]:
    """A header, and what may be shown of it."""
    return header, f"{_named_text(header)[0]}: ***"


def cost(result: Recovery, oracle: Oracle) -> str:
    """Queries beside parameters, in words."""
    found = 0 if result.network is None else result.network.free_parameters
    cached = f" ({oracle.cached:,} taken from the cache)" if oracle.cached else ""
    return f"{counted_queries(oracle.used)} for {counted(found, 'parameter')}{cached}"


def _check_truth(path: Path | None, truth: Network | None, oracle: Oracle) -> None:
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
