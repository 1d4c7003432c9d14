"""Provenance is what replies were made with; a resumed run needs the same model and prompts. Pure.

The heading of a run cannot hold this, because a service reports its prompts with each reply.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from evals.errors import RecordsUnusable
from kernel.values import value

# Digits of a digest that are shown.
SHOWN = 12


@value
class Provenance:
    """The models, prompts and configuration that a reply reports.

    Attributes:
        arm: The arm that answered.
        models: Models that took part; empty where the reply does not name them.
        digests: Prompt digests by name.
        configuration: Version of the configuration in force; empty where the reply does not report it.
    """

    arm: str
    models: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    configuration: str = ""


@value
class RecordedProvenance:
    """The models, prompts and configurations that the replies of earlier starts reported.

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
        """The arms that answered before."""
        return self.configurations

    def require_same(self, now: Provenance) -> None:
        """Reject a reply that was made differently; what earlier replies did not report is not compared.

        Raises:
            RecordsUnusable: When a prompt, the configuration or every model differs; names it.
        """
        for name, digest in now.digests.items():
            known = self.digests.get((now.arm, name), {digest})
            _require(digest in known, f"{now.arm} with prompt {name}", _short(known), _short([digest]))
        known = self.configurations.get(now.arm, set())
        comparable = bool(known) and bool(now.configuration)
        same = not comparable or now.configuration in known
        _require(same, f"{now.arm} with configuration", known, [now.configuration])
        of_arm = self.models.get(now.arm, set())
        of_all = {model for models in self.models.values() for model in models}
        # Where several models take part, one that is new in this arm may have answered for another arm before.
        all_new = bool(of_arm) and bool(now.models) and of_all.isdisjoint(now.models)
        _require(not all_new, f"{now.arm} by model", of_arm, now.models)


def recorded_provenance(replies: Iterable[Provenance]) -> RecordedProvenance:
    """Collect what `replies` reported."""
    models: dict[str, set[str]] = {}
    digests: dict[tuple[str, str], set[str]] = {}
    configurations: dict[str, set[str]] = {}
    for reply in replies:
        models.setdefault(reply.arm, set()).update(reply.models)
        for name, digest in reply.digests.items():
            digests.setdefault((reply.arm, name), set()).add(digest)
        configurations.setdefault(reply.arm, set()).update([reply.configuration] if reply.configuration else [])
    return RecordedProvenance(models=models, digests=digests, configurations=configurations)


def digests_text(digests: Mapping[str, Iterable[str]]) -> str:
    """Every prompt with all of its digests, shortened."""
    return ", ".join(f"`{name}` {' and '.join(_short(each))}" for name, each in digests.items())


def collected_digests(reported: Iterable[Mapping[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """All digests of each name, in the order in which they were reported."""
    found: dict[str, dict[str, None]] = {}
    for digests in reported:
        for name, digest in digests.items():
            found.setdefault(name, {})[digest] = None
    return {name: tuple(each) for name, each in found.items()}


def _short(digests: Iterable[str]) -> list[str]:
    return [digest[:SHOWN] for digest in digests]


def _require(same: bool, what: str, known: Iterable[str], now: Iterable[str]) -> None:
    if not same:
        raise RecordsUnusable(
            f"the records there were made by {what} {', '.join(sorted(known))}, and now it is {', '.join(now)}; "
            "take another --out"
        )
