"""What `provenet demo` does: hide a random network, and find it again."""

from __future__ import annotations

import math
import time

import numpy as np
import typer

from provenet.certify.checks import Status
from provenet.cli.ending import exit_unless, note, stderr, stdout
from provenet.cli.shared import (
    EXACT,
    Features,
    Json,
    Noise,
    Outputs,
    Quiet,
    ReportFile,
    Samples,
    Seed,
    Units,
    check_reported,
    command_line,
    error_of,
    random_network_of,
    summary_of,
)
from provenet.common.progress import StageProgress
from provenet.data.sources import ArraySource
from provenet.datasets import sample
from provenet.recover import recover as recover_network
from provenet.report import console as show
from provenet.report import tables, write_report


def demo(
    features: Features = 20,
    units: Units = 10,
    outputs: Outputs = 1,
    samples: Samples = 1000,
    noise: Noise = 0.0,
    report: ReportFile = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a random network, hide it, and recover it from its samples."""
    check_reported(report)
    rng = np.random.default_rng(seed)
    truth = random_network_of(units, features, outputs, bias_scale=1.5, rng=rng)
    out = stdout()
    if not (json or quiet):
        show.introduce(out, truth, samples, noise)
    with StageProgress(stderr(), quiet=quiet) as progress:
        X, y = sample(truth, samples, noise=noise, rng=rng)
        began = time.perf_counter()
        result = recover_network(X, y, rng=seed, progress=progress)
        seconds = time.perf_counter() - began
        if report is not None:
            progress("Writing the report", -1)
            source = ArraySource(X, y)
            write_report(report, result, source, truth=truth, command=command_line(), seed=seed)
    error = error_of(result, truth)
    if json:
        typer.echo(show.to_json(summary_of(result, parameter_error=error, truth=truth.canonical())))
    elif quiet:
        out.print(
            show.status_line(result), f"Parameter error: {tables.small(error)}.", soft_wrap=True
        )
    else:
        show.reveal(out, result, truth, error, seconds)
    if report is not None:
        note(f"Wrote {report}", quiet)
    # The truth is known here, so a certificate that is wrong does not pass.
    right = error <= EXACT if result.status is Status.EXACT else math.isfinite(error)
    exit_unless(result.success and right)
