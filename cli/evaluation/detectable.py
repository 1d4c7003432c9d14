"""`metacog eval detectable` says which gain a number of items can show."""

from typing import Annotated

import typer

from cli.evaluation.common import numbers


def detectable(
    items: Annotated[str, typer.Option(help="Numbers of paired items, separated by commas.")] = "24,111,250,1600",
    differing: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the items on which the two ways differ.")
    ] = 1 / 6,
) -> None:
    """Print the smallest gain that paired items can show: half the width of its 95 % interval.

    Where two ways of answering differ in being right on one item of six, 250 items show a gain of 5 points, and 1,600
    one of 2. An evaluation with fewer items that shows no gain says nothing about smaller ones.
    """
    from evals.markdown import number, table
    from evals.stats.detectable import least_gain

    counts = [count for count in numbers(items, "--items") if count]
    rows = [[number(count, 0), number(100 * least_gain(count, differing), 1)] for count in counts]
    typer.echo(table(["items", "gain that they can show, in points"], rows))
