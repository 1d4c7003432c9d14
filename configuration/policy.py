"""This module reads the policy table from a file.

Read by the router at its start only, and checked by `metacog config validate --policy FILE`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from hashlib import sha256
from pathlib import Path

import yaml

from chassis.errors import ConfigurationInvalid
from configuration.yaml_file import YamlFile
from kernel.policy import COMPARISONS, MEASURES, Condition, Policy, PolicyRow, condition, row_error
from kernel.values import value
from kernel.votes.plans import PlannedSource, VotePlan


@value
class WrittenRow:
    """A written row is a row as the file has it."""

    name: str
    strategy: str
    when: Mapping[str, str] = field(default_factory=dict)
    always: bool = False
    model: str = ""
    sources: Sequence[str | PlannedSource] = ()
    agree: int | None = None
    most: int | None = None
    escalate: str = ""


@value
class WrittenPolicy:
    """A written policy is the table as the file has it."""

    rows: Sequence[WrittenRow]


def read_policy(path: Path) -> Policy:
    """Return the policy table at `path`, under a digest of its rows as version.

    Raises:
        ConfigurationInvalid: When the file cannot be used; names the line and the reason.
    """
    try:
        file = YamlFile(path, WrittenPolicy)
    except ConfigurationInvalid as error:
        raise _with_hint(error) from error
    if not file.content.rows:
        raise file.error_at(["rows"], "rows: at least one row is needed; without a table, leave the setting out")
    rows = [_row(file, place, written) for place, written in enumerate(file.content.rows)]
    for place in range(len(rows)):
        if problem := row_error(rows, place):
            raise file.error_at(["rows", place, problem.partition(":")[0]], f"rows.{place}: {problem}")
    return Policy(version=_digest(rows), rows=rows)


def _digest(rows: Sequence[PolicyRow]) -> str:
    return sha256(json.dumps([asdict(row) for row in rows], sort_keys=True).encode()).hexdigest()[:12]


def _row(file: YamlFile[WrittenPolicy], place: int, written: WrittenRow) -> PolicyRow:
    return PolicyRow(
        name=written.name,
        strategy=written.strategy,
        when={measure: _condition(file, place, measure, text) for measure, text in written.when.items()},
        always=written.always,
        model=written.model,
        plan=_plan(written),
    )


def _plan(written: WrittenRow) -> VotePlan | None:
    """Return the vote plan of a row; None where it states none. A source that is a name is a model."""
    sources = [PlannedSource(model=one) if isinstance(one, str) else one for one in written.sources]
    plan = VotePlan(sources=sources, agree=written.agree, most=written.most, escalate=written.escalate)
    return None if plan == VotePlan(sources=[]) else plan


def _condition(file: YamlFile[WrittenPolicy], place: int, measure: str, text: str) -> Condition:
    steps: list[str | int] = ["rows", place, "when", measure]
    where = f"rows.{place}.when.{measure}"
    if measure not in MEASURES:
        raise file.error_at(steps, f"{where}: {measure!r} is nothing that is measured; there are {', '.join(MEASURES)}")
    try:
        return condition(text)
    except ValueError as error:
        raise file.error_at(steps, f"{where}: {error}") from error


def _with_hint(wrong: ConfigurationInvalid) -> ConfigurationInvalid:
    """Return the error with a hint about quotes, which YAML's own message for a bare operator lacks."""
    if not isinstance(wrong.__cause__, yaml.MarkedYAMLError):
        return wrong
    hint = f'; conditions stand in quotes, such as "{next(iter(COMPARISONS))} 0.6"'
    return ConfigurationInvalid(wrong.message + hint, **{**wrong.metadata, "problem": wrong.metadata["problem"] + hint})
