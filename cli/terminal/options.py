"""Options that many commands share, spelled once."""

from typing import Annotated

import typer

from cli.terminal.client import PORTS


def _face(name: str) -> object:
    return typer.Option(
        f"--{name}",
        envvar=f"METACOG_{name.upper()}_URL",
        show_default=f"http://127.0.0.1:{PORTS[name]}",
        help=f"REST face of the {name}.",
    )


RouterUrl = Annotated[str, _face("router")]
AssignerUrl = Annotated[str, _face("assigner")]
ArbiterUrl = Annotated[str, _face("arbiter")]
DelegationUrl = Annotated[str, _face("delegation")]
Key = Annotated[
    str, typer.Option("--key", envvar="METACOG_API_KEY", show_default=False, help="API key, where keys are configured.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for programs.")]

MaxGenerations = Annotated[
    int | None, typer.Option("--max-generations", min=1, help="Samples at most; left out: the service's default.")
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-generated-tokens", min=1, help="Tokens generated at most, over everything."),
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", help="What the models may cost at most, in the currency of METACOG_PRICES."),
]
Timeout = Annotated[float | None, typer.Option("--timeout", min=0.001, help="Time until an answer is due [s].")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Makes it repeatable where the backend honours seeds.")]


def given(**parts: object) -> dict[str, object]:
    """The parts of a request that were given: neither None nor empty.

    Example:
        >>> given(question="Why?", strategy="", seed=0, agents=[])
        {'question': 'Why?', 'seed': 0}
    """
    return {name: part for name, part in parts.items() if part is not None and part not in ("", [], {}, ())}


def envelope(
    generations: int | None, tokens: int | None, timeout_s: float | None, cost: float | None
) -> dict[str, object]:
    """Hard limits of a request; empty without any.

    Example:
        >>> envelope(None, 200, 1.5, 0.02)
        {'max_generated_tokens': 200, 'timeout_ms': 1500, 'max_cost': 0.02}
    """
    timeout_ms = None if timeout_s is None else max(1, round(timeout_s * 1000))
    return given(max_generations=generations, max_generated_tokens=tokens, timeout_ms=timeout_ms, max_cost=cost)
