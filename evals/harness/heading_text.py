"""How every report begins: with what it was made, and what it cost. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.harness.provenance import collected_digests, digests_text
from evals.harness.rows import Recorded
from evals.markdown import number, table

READING = (
    "Intervals are 95 %, by bootstrap over items, paired where two arms are compared; an item with several seeds is "
    "drawn as a whole. **A gain whose interval holds zero is reported as no gain**, one that rests on "
    "fewer than six items that differ as too few; where items are right or wrong the exact sign test must agree. An "
    "answer that cannot be read counts as wrong; a refused request is left out, and counted."
)


def opening(title: str, made: Recorded, *, reading: str = READING, **more: str) -> str:
    """Title and everything that the figures were made with.

    Args:
        title: What the report asks.
        made: The records.
        reading: How its figures are to be read.
        more: What else is told, by name.
    """
    first = made.runs[0]
    told = {
        "model": ", ".join(_models(made)) or "not told",
        **more,
        "items": f"{_items(made)}; {_seeds(made)}",
        "commit": ", ".join(dict.fromkeys(str(run["commit"]) for run in made.runs)),
        "configuration": _configuration(first["suite"]) or ", ".join(f"`{name}`" for name in _configurations(made)),
        "prompts": digests_text(_digests(made)),
        "recorded": _recorded(made),
        "spent": spent_text(made),
        "refused": _refusals(made),
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in told.items() if text)
    typed = "\n\n".join(dict.fromkeys(f"`{run['data']['typed']}`" for run in made.runs))
    return f"### {title}\n\n{typed}\n\n{lines}\n\n{reading}"


def spent_text(made: Recorded) -> str:
    """Everything that was spent, what asking for the router's model has cost included; replays spend nothing."""
    asked = [row.said for row in made.rows if not row.replayed]
    spent = [said.spent for said in asked]
    first: Counter[str] = Counter()
    for run in made.runs:
        first.update(run.get("spent") or {})
    hours = sum(said.duration_ms for said in asked) / 3_600_000
    return (
        f"{number(sum(each.generations for each in spent) + first['generations'], 0)} generations, "
        f"{number(sum(each.prompt_tokens for each in spent) + first['prompt_tokens'], 0)} prompt tokens, "
        f"{number(sum(each.completion_tokens for each in spent) + first['completion_tokens'], 0)} generated, "
        f"{hours:.2f} h of the services' time"
    )


def settings_table(made: Recorded) -> str:
    """What each arm is made with."""
    arms: dict[str, Any] = {}
    for run in made.runs:
        arms.update(run["arms"])
    rows = [[name, ", ".join(f"{key} {text}" for key, text in settings.items())] for name, settings in arms.items()]
    return table(["arm", "is"], rows)


def _items(made: Recorded) -> str:
    """What was answered, of what was asked for."""
    answered = len({row.item.id for row in made.rows})
    asked = max(run["items"] for run in made.runs)
    sets = ", ".join(dict.fromkeys(row.item.dataset for row in made.rows))
    return f"{answered} of {sets}" + (f" ({asked} were asked for)" if asked > answered else "")


def _models(made: Recorded) -> Sequence[str]:
    """Models that spoke, and the one behind the router where that was asked."""
    spoke = [model for row in made.rows for model in row.said.models]
    return list(dict.fromkeys([*spoke, *(run["suite"]["model"] for run in made.runs if run["suite"].get("model"))]))


def _configurations(made: Recorded) -> Sequence[str]:
    return list(dict.fromkeys(row.said.configuration for row in made.rows if row.said.configuration))


def _seeds(made: Recorded) -> str:
    seeds: Sequence[int] = sorted({row.seed for row in made.rows})
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _configuration(suite: Mapping[str, Any]) -> str:
    if not suite:
        return ""
    weights = ", ".join(f"{name} {weight:g}" for name, weight in suite["weights"].items())
    return f"`{suite['config_version']}`, threshold {suite['threshold']}, weights {weights}"


def _digests(made: Recorded) -> Mapping[str, tuple[str, ...]]:
    return collected_digests([*(run["prompt_digests"] for run in made.runs), *(row.said.digests for row in made.rows)])


def _recorded(made: Recorded) -> str:
    first = made.runs[0]
    starts = f", in {len(made.runs)} starts" if len(made.runs) > 1 else ""
    return f"{first['time']}, {first['concurrency']} at a time, {first['timeout_ms'] / 1000:g} s for a request{starts}"


def _refusals(made: Recorded) -> str:
    counts = sorted(made.refusals.items())
    return ", ".join(f"{arm}: {reason} {count} times" for (arm, reason), count in counts)
