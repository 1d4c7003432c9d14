"""The head of every report: what it was made with, and what it cost. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.harness.provenance import collected_digests, digests_text
from evals.harness.rows import RecordedEvaluation
from evals.markdown import number, power, table

READING = (
    "Intervals are 95 %, by bootstrap over items, paired where two arms are compared; an item with several seeds is "
    "drawn as a whole. **A gain whose interval holds zero is reported as no gain**, one that rests on "
    "fewer than six items that differ as too few; where items are right or wrong the exact sign test must agree. An "
    "answer that cannot be read counts as wrong; a failed request is left out, and counted."
)


def opening(title: str, evaluation: RecordedEvaluation, *, reading: str = READING, **more: str) -> str:
    """Title and everything that the figures were made with.

    Args:
        title: What the report asks.
        evaluation: The records.
        reading: How its figures are to be read.
        more: What else is reported, by name.
    """
    first = evaluation.runs[0]
    lines_by_name = {
        "model": ", ".join(_models(evaluation)) or "not reported",
        **more,
        "items": f"{_items(evaluation)}; {_seeds(evaluation)}",
        "power": power(len({row.item.id for row in evaluation.rows})),
        "commit": ", ".join(dict.fromkeys(str(run["commit"]) for run in evaluation.runs)),
        "configuration": _configuration(first["suite"])
        or ", ".join(f"`{name}`" for name in _configurations(evaluation)),
        "prompts": digests_text(_digests(evaluation)),
        "recorded": _recorded(evaluation),
        "spent": spent_text(evaluation),
        "failed requests": _failures(evaluation),
    }
    lines = "\n".join(f"- {name}: {text}" for name, text in lines_by_name.items() if text)
    typed = "\n\n".join(dict.fromkeys(f"`{run['data']['typed']}`" for run in evaluation.runs))
    return f"### {title}\n\n{typed}\n\n{lines}\n\n{reading}"


def spent_text(evaluation: RecordedEvaluation) -> str:
    """The total spending, with the request for the router's model; replays spend nothing."""
    answers = [row.said for row in evaluation.rows if not row.replayed]
    spent = [answer.spent for answer in answers]
    first: Counter[str] = Counter()
    for run in evaluation.runs:
        first.update(run.get("spent") or {})
    hours = sum(answer.duration_ms for answer in answers) / 3_600_000
    return (
        f"{number(sum(each.generations for each in spent) + first['generations'], 0)} generations, "
        f"{number(sum(each.prompt_tokens for each in spent) + first['prompt_tokens'], 0)} prompt tokens, "
        f"{number(sum(each.completion_tokens for each in spent) + first['completion_tokens'], 0)} generated, "
        f"{hours:.2f} h of the services' time"
    )


def settings_table(evaluation: RecordedEvaluation) -> str:
    """Return what each arm is made with."""
    arms: dict[str, Any] = {}
    for run in evaluation.runs:
        arms.update(run["arms"])
    rows = [[name, ", ".join(f"{key} {text}" for key, text in settings.items())] for name, settings in arms.items()]
    return table(["arm", "is"], rows)


def _items(evaluation: RecordedEvaluation) -> str:
    """Return what was answered, of what was asked for."""
    answered = len({row.item.id for row in evaluation.rows})
    answers = max(run["items"] for run in evaluation.runs)
    sets = ", ".join(dict.fromkeys(row.item.dataset for row in evaluation.rows))
    return f"{answered} of {sets}" + (f" ({answers} were asked for)" if answers > answered else "")


def _models(evaluation: RecordedEvaluation) -> Sequence[str]:
    """Models that took part, and the one behind the router where that was asked."""
    answering = [model for row in evaluation.rows for model in row.said.models]
    return list(
        dict.fromkeys([*answering, *(run["suite"]["model"] for run in evaluation.runs if run["suite"].get("model"))])
    )


def _configurations(evaluation: RecordedEvaluation) -> Sequence[str]:
    return list(dict.fromkeys(row.said.configuration for row in evaluation.rows if row.said.configuration))


def _seeds(evaluation: RecordedEvaluation) -> str:
    seeds: Sequence[int] = sorted({row.seed for row in evaluation.rows})
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _configuration(suite: Mapping[str, Any]) -> str:
    if not suite:
        return ""
    weights = ", ".join(f"{name} {weight:g}" for name, weight in suite["weights"].items())
    return f"`{suite['config_version']}`, threshold {suite['threshold']}, weights {weights}"


def _digests(evaluation: RecordedEvaluation) -> Mapping[str, tuple[str, ...]]:
    return collected_digests(
        [*(run["prompt_digests"] for run in evaluation.runs), *(row.said.digests for row in evaluation.rows)]
    )


def _recorded(evaluation: RecordedEvaluation) -> str:
    first = evaluation.runs[0]
    starts = f", in {len(evaluation.runs)} starts" if len(evaluation.runs) > 1 else ""
    return f"{first['time']}, {first['concurrency']} at a time, {first['timeout_ms'] / 1000:g} s for a request{starts}"


def _failures(evaluation: RecordedEvaluation) -> str:
    counts = sorted(evaluation.failures.items())
    return ", ".join(f"{arm}: {reason} {count} times" for (arm, reason), count in counts)
