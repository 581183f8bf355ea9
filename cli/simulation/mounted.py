"""`nodemend simulate`, as the command line mounts it. What it needs is loaded when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from cli.output import Output, OutputOption, print_document


def simulate(
    fleet: Annotated[
        str, typer.Argument(help="llama3-16k, rsc1-16k, rsc2-8k, small, or a YAML file of your own.")
    ] = "small",
    policy: Annotated[Path | None, typer.Option("--policy", help="Policy file; left out: the default.")] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Policy to compare with; left out: every report is acted on at once."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed, the same faults.")] = 1,
    chart: Annotated[
        Path | None, typer.Option("--chart", help="Write a chart of the nodes at work (SVG) here.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play faults and a bad roll-out on a model of a fleet: what would this policy have done?"""
    from cli.simulation.command import plain as in_plain_words
    from cli.simulation.command import run, show

    model, results = run(fleet, policy, against, seed, chart)
    if output is not Output.TABLE:
        print_document(in_plain_words(model, seed, results), output)
    else:
        show(model, results)
