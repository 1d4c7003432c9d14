"""The options that several commands share."""

from collections.abc import Iterable
from typing import Annotated

import typer

from configuration.services import REST_PORTS

SERVICE_NAMES = {
    "router": "router",
    "assigner": "assigner",
    "arbiter": "arbiter",
    "delegation": "delegation service",
}


def one_of(names: Iterable[str]) -> str:
    """Return names as a choice in a sentence.

    Example:
        >>> one_of(["vote", "cascade", "dialectic"])
        'vote, cascade or dialectic'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _url_option(name: str) -> object:
    return typer.Option(
        f"--{name}",
        envvar=f"METACOG_{name.upper()}_URL",
        show_default=f"http://127.0.0.1:{REST_PORTS[name]}",
        help=f"URL of the {SERVICE_NAMES[name]}.",
    )


RouterUrl = Annotated[str, _url_option("router")]
AssignerUrl = Annotated[str, _url_option("assigner")]
ArbiterUrl = Annotated[str, _url_option("arbiter")]
DelegationUrl = Annotated[str, _url_option("delegation")]
Key = Annotated[
    str, typer.Option("--key", envvar="METACOG_API_KEY", show_default=False, help="API key, where keys are configured.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]

MaxGenerations = Annotated[
    int | None, typer.Option("--max-generations", min=1, help="Maximum number of generations; default: the service's.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-generated-tokens", min=1, help="Maximum number of generated tokens, in total."),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", help="Maximum cost of the model calls, in the currency of METACOG_PRICES."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, help="Time limit of the answer [s].")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed; makes the result repeatable if the backend supports seeds.")
]
AnswerType = Annotated[
    str, typer.Option("--type", help="Type of the answer, e.g. NUMBER or CHOICE; default: inferred from the question.")
]


def given(**parts: object) -> dict[str, object]:
    """Return the parts of a request that are neither None nor empty.

    Example:
        >>> given(question="Why?", strategy="", seed=0, agents=[])
        {'question': 'Why?', 'seed': 0}
    """
    return {name: part for name, part in parts.items() if part is not None and part not in ("", [], {}, ())}


def envelope(
    generations: int | None, tokens: int | None, timeout_s: float | None, cost: float | None
) -> dict[str, object]:
    """Return the hard limits of a request; empty without any.

    Example:
        >>> envelope(None, 200, 1.5, 0.02)
        {'max_generated_tokens': 200, 'timeout_ms': 1500, 'max_cost': 0.02}
    """
    timeout_ms = None if timeout_s is None else max(1, round(timeout_s * 1000))
    return given(max_generations=generations, max_generated_tokens=tokens, timeout_ms=timeout_ms, max_cost=cost)
