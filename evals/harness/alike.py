"""Whether a run that is taken up again is answered as it was: by the same model, with the same prompts. Pure.

The heading of a run cannot know this beforehand: a service tells its prompts with each reply.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from evals.errors import RecordsUnusable
from kernel.values import value

# Digits of a digest that are shown.
SHOWN = 12


@value
class Heard:
    """What a reply tells of how it was made.

    Attributes:
        arm: Who answered.
        models: Models that spoke; empty where they are not told.
        digests: Prompt digests by name.
        configuration: Version of the configuration in force; empty where that is not told.
    """

    arm: str
    models: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    configuration: str = ""


@value
class Before:
    """What the replies of earlier starts told.

    Attributes:
        models: Models by arm.
        digests: Digests by arm and prompt.
        configurations: Configurations by arm.
    """

    models: Mapping[str, set[str]]
    digests: Mapping[tuple[str, str], set[str]]
    configurations: Mapping[str, set[str]]

    @property
    def arms(self) -> Collection[str]:
        """Who answered before."""
        return self.configurations

    def demand_alike(self, now: Heard) -> None:
        """Refuse a reply that was made otherwise; what was never told before is not compared.

        Raises:
            RecordsUnusable: When a prompt, the configuration or every model is another; names it.
        """
        for name, digest in now.digests.items():
            known = self.digests.get((now.arm, name), {digest})
            _demand(digest in known, f"{now.arm} with prompt {name}", _short(known), _short([digest]))
        known = self.configurations.get(now.arm, set())
        told = bool(known) and bool(now.configuration)
        _demand(not told or now.configuration in known, f"{now.arm} with configuration", known, [now.configuration])
        spoke = self.models.get(now.arm, set())
        everybody = {model for each in self.models.values() for model in each}
        # Where several models take part, one that this arm did not take before may have spoken elsewhere.
        strangers = bool(spoke) and bool(now.models) and everybody.isdisjoint(now.models)
        _demand(not strangers, f"{now.arm} by model", spoke, now.models)


def before(replies: Iterable[Heard]) -> Before:
    """What `replies` told."""
    models: dict[str, set[str]] = {}
    digests: dict[tuple[str, str], set[str]] = {}
    configurations: dict[str, set[str]] = {}
    for heard in replies:
        models.setdefault(heard.arm, set()).update(heard.models)
        for name, digest in heard.digests.items():
            digests.setdefault((heard.arm, name), set()).add(digest)
        configurations.setdefault(heard.arm, set()).update([heard.configuration] if heard.configuration else [])
    return Before(models=models, digests=digests, configurations=configurations)


def listed(digests: Mapping[str, Iterable[str]]) -> str:
    """Every prompt with all of its digests, in short."""
    return ", ".join(f"`{name}` {' and '.join(_short(each))}" for name, each in digests.items())


def gathered(told: Iterable[Mapping[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """All digests of each name, in the order in which they came."""
    found: dict[str, dict[str, None]] = {}
    for digests in told:
        for name, digest in digests.items():
            found.setdefault(name, {})[digest] = None
    return {name: tuple(each) for name, each in found.items()}


def _short(digests: Iterable[str]) -> list[str]:
    return [digest[:SHOWN] for digest in digests]


def _demand(alike: bool, what: str, known: Iterable[str], now: Iterable[str]) -> None:
    if not alike:
        raise RecordsUnusable(
            f"the records there were made by {what} {', '.join(sorted(known))}, and now it is {', '.join(now)}; "
            "take another --out"
        )
