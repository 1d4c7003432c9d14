"""Chooses the rule of a cascade from labelled answers, and reports the evidence and the policy row to write."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import yaml

from chassis.errors import ConfigurationInvalid
from cli.calibration.recorded_cascades import CascadeSample, policy_source
from cli.calibration.too_few import TooFewLabels
from kernel.statistics.bootstrap import Estimate
from kernel.votes.cascade import most_worth, sources_by_price
from kernel.votes.cascade_choice import (
    MOST_COMPARED,
    CascadeChoice,
    CascadeLimit,
    CascadeRule,
    NoCascadeChoice,
    RuleEvidence,
    candidate_rules,
    choose_cascade,
)
from kernel.votes.votes import VoteMode, VoteSource

COMPLETE = (
    "have every model answer the same questions, each by its own name, and label all these answers; or give them by"
    " --records"
)


def chosen_cascade(
    sample: CascadeSample, *, strong: str, sources: Sequence[str], limit: CascadeLimit, rng: np.random.Generator
) -> CascadeChoice:
    """Choose a rule.

    Args:
        sample: Labelled answers.
        strong: The strong model; empty: the source whose answers cost most.
        sources: Cheap sources; empty: all others.
        limit: What the rule may spend.
        rng: Random generator, for folds and resampling.

    Raises:
        TooFewLabels: There are too few labels, or they do not say what another rule would have given.
        ConfigurationInvalid: A source is unknown, too many are compared, or no rule keeps the limit.
    """
    if not sample.questions:
        raise TooFewLabels(f"there is no labelled question that several sources answered; {COMPLETE}{_left(sample)}")
    escalate = strong or _most_expensive(sample)
    cheap = [name for name in _in_order(sample) if name != escalate and (not sources or name in sources)]
    unknown = [name for name in (escalate, *sources) if name not in sample.costs]
    if unknown:
        known = ", ".join(sample.costs)
        raise ConfigurationInvalid(f"the records have no answer of {', '.join(unknown)}; there are {known}")
    if not 0 < len(cheap) <= MOST_COMPARED:
        raise ConfigurationInvalid(
            f"{len(cheap)} cheap sources answered beside {escalate}; name 1 to {MOST_COMPARED} with --source"
        )
    rules = [rule for rule in candidate_rules(cheap, escalate) if _can_pay(rule, sample)]
    found = choose_cascade(sample.questions, rules, limit, rng)
    if isinstance(found, CascadeChoice):
        return found
    raise _no_choice(found, sample)


def policy_file(choice: CascadeChoice, sample: CascadeSample) -> str:
    """Format the chosen rule as a policy table with one row, for every question."""
    about = "".join(f"# {line}\n" for line in _facts(choice, sample))
    row = {"name": "small-first", "always": True, **_row(choice.rule)}
    return about + yaml.safe_dump({"rows": [row]}, sort_keys=False, default_flow_style=None)


def report(choice: CascadeChoice, sample: CascadeSample) -> str:
    """Describe the chosen rule and its evidence as text."""
    return "\n".join([*_facts(choice, sample), f"rule: {_rule(choice.rule)}"])


def document(choice: CascadeChoice, sample: CascadeSample) -> Mapping[str, Any]:
    """Describe the chosen rule and its evidence as JSON."""
    return {"row": _row(choice.rule), "costs": dict(sample.costs), "left_out": dict(sample.left_out), **asdict(choice)}


def _in_order(sample: CascadeSample) -> Sequence[str]:
    """Return the sources in the order in which a cascade asks them: the cheapest first, then the most often right."""
    known: dict[str, list[bool]] = {name: [] for name in sample.costs}
    for question in sample.questions:
        for name, one in question.items():
            known[name].extend([] if one.is_right is None else [one.is_right])
    sources = [
        VoteSource(model=name, mode=VoteMode.REASONED, competence=sum(right) / len(right) if right else None)
        for name, right in known.items()
    ]
    return [source.model for source in sources_by_price(sources, sample.costs)]


def _can_pay(rule: CascadeRule, sample: CascadeSample) -> bool:
    """Return whether all cheap answers of a rule together cost less than the strong one, as far as costs are known."""
    if not rule.escalate:
        return True
    worth = most_worth([sample.costs[name] for name in rule.sources], sample.costs[rule.escalate])
    return worth is None or worth == len(rule.sources)


def _most_expensive(sample: CascadeSample) -> str:
    known = {name: cost for name, cost in sample.costs.items() if cost is not None}
    if len(known) < len(sample.costs):
        unknown = ", ".join(name for name in sample.costs if name not in known)
        raise ConfigurationInvalid(
            f"which model is the strong one is open, since no cost of {unknown} is recorded; name it with --escalate"
        )
    return max(known, key=lambda name: known[name])


def _no_choice(found: NoCascadeChoice, sample: CascadeSample) -> TooFewLabels | ConfigurationInvalid:
    if found.needed is not None:
        return TooFewLabels(
            f"{found.questions} labelled questions are too few to choose a rule; at least {found.needed} are needed, of"
            f" which 20 escalated{_left(sample)}"
        )
    return ConfigurationInvalid(f"no rule can be chosen from {found.questions} labelled questions: {found.reason}")


def _left(sample: CascadeSample) -> str:
    return "".join(f"; left out, {reason}: {count}" for reason, count in sample.left_out.items())


def _row(rule: CascadeRule) -> Mapping[str, Any]:
    """Return the part of a policy row that a rule determines."""
    sources = [policy_source(name) for name in rule.sources]
    if rule.escalate:
        votes = {"agree": rule.agree, "most": len(sources), "escalate": rule.escalate}
        return {"strategy": "cascade", "sources": sources, **votes}
    if len(sources) == 1 and isinstance(sources[0], str):
        return {"strategy": "system1", "model": sources[0]}
    return {"strategy": "vote", "sources": sources, "agree": rule.agree, "most": len(sources)}


def _rule(rule: CascadeRule) -> str:
    names = ", ".join(rule.sources)
    if len(rule.sources) == 1:
        alone = f"{names} alone"
        return f"{alone}, and {rule.escalate} where its answer cannot be read" if rule.escalate else alone
    asked = f"{rule.agree} of {names} must agree"
    return f"{asked}, else {rule.escalate} answers" if rule.escalate else f"{asked}, else the largest group's answer"


def _facts(choice: CascadeChoice, sample: CascadeSample) -> list[str]:
    """Describe the evidence, one sentence a line."""
    left_out = "; ".join(f"{reason}: {count}" for reason, count in sample.left_out.items()) or "none"
    compared = f"rules within the limit: {choice.compared}"
    if choice.undetermined:
        compared += f"; the records do not say what {choice.undetermined} others would have given"
    if choice.rare:
        compared += f"; {choice.rare} others escalate, or do not, fewer than 20 questions"
    lines = [
        f"labelled questions: {choice.questions}; left out: {left_out}",
        compared,
        *_figures("on all of them", choice.evidence),
        *_figures("on questions that the rule was not chosen on", choice.held_out),
    ]
    if choice.over_random.value is not None:
        lines.append(f"share right over as many questions escalated at random: {_signed(choice.over_random)}")
    if choice.against_strong.value is not None:
        lines.append(f"share right against always asking the strong model: {_signed(choice.against_strong)}")
    return lines


def _figures(where: str, evidence: RuleEvidence) -> list[str]:
    cost = "unknown" if evidence.cost.value is None else _interval(evidence.cost, "#.4g")
    shares = f"share right {_interval(evidence.share_right)}, escalated {_interval(evidence.escalated)}"
    return [f"{where}: {shares}, mean cost {cost}"]


def _interval(found: Estimate, form: str = ".3f") -> str:
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _signed(found: Estimate) -> str:
    return _interval(found, "+.3f")
