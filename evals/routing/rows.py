"""Raw records, read as one row for each item: was System 1 wrong, and what did each assessor make of it. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evals.errors import RecordsUnusable
from evals.harness.commands import ROUTING, runs_of
from evals.harness.failures import error_of, error_reason
from evals.harness.provenance import collected_digests
from evals.records import Record
from evals.routing.requests import DRAFT, SINGLE_PASS
from evals.scorers.answers import Known, ScoredAnswer, scored
from kernel.answers import AnswerType
from kernel.policy import Strategy
from kernel.values import value

ASSESS, SYSTEM_ONE = "assess", Strategy.SYSTEM_ONE.value

_NAMED = re.compile(r".*?\b[A-Z]+(?:_[A-Z]+)+\b")


@value
class Spent:
    """The spending of one stage of a request.

    Attributes:
        generations: Samples drawn [count].
        prompt_tokens: Tokens of the prompts [count].
        completion_tokens: Tokens generated [count].
    """

    generations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@value
class Reading:
    """The state and decision of one assessor on one item.

    Attributes:
        activation: Pressure to deliberate [0..1]; None when too little is known.
        sent: Whether the item goes to System 2 at the threshold in force.
        components: Value by component of the state, as far as known [0..1].
        reasons: Why a component is unknown, by its name.
        parts: Finer measurements by name [0..1].
        weights: Weights in force by component.
        assess: What assessing spent.
        duration_ms: Time that assessing and deciding took [ms]; with `draft` the System 1 answer is in it.
    """

    activation: float | None
    sent: bool
    components: Mapping[str, float]
    reasons: Mapping[str, str]
    parts: Mapping[str, float]
    weights: Mapping[str, float]
    assess: Spent
    duration_ms: float


@value
class SinglePassAnswer:
    """The System 1 answer, asked for by itself."""

    text: str
    model: str
    spent: Spent
    duration_ms: float


@value
class Row:
    """One item with its System 1 answer.

    Attributes:
        item: Its name.
        dataset: Its data set.
        label: Whether the answer is right.
        prompt_characters: Length of its prompt [characters].
        readings: What each assessor made of it, by name.
        single_pass: The System 1 answer by itself, where that was asked for.
        drafted: The System 1 answer that `draft` made; empty where it made none.
    """

    item: str
    dataset: str
    label: ScoredAnswer
    prompt_characters: int
    readings: Mapping[str, Reading]
    single_pass: SinglePassAnswer | None
    drafted: str

    @property
    def wrong(self) -> bool:
        """Return whether System 1 is wrong."""
        return not self.label.right


@value
class RecordedRouting:
    """An evaluation as it was recorded.

    Attributes:
        runs: Headings of its runs, one for each start.
        rows: Items with a System 1 answer.
        unanswered: Items without one [count].
        failures: Requests that the router rejected, by its reason [count].
        digests: All prompt digests of each name: those of the question, and those that assessing used.
        spent: Everything that was spent.
        hours: Time of the router, in all requests [h].
    """

    runs: Sequence[Record]
    rows: Sequence[Row]
    unanswered: int
    failures: Mapping[str, int]
    digests: Mapping[str, Sequence[str]]
    spent: Spent
    hours: float


def recorded(records: Sequence[Record]) -> RecordedRouting:
    """The evaluation that `records` hold.

    Raises:
        RecordsUnusable: When they have no heading, are of another evaluation, lack what they should have, or have no
            answer yet.
    """
    runs = runs_of(records, ROUTING)
    replies: dict[str, dict[str, Record]] = {}
    for record in records:
        if record["kind"] == "reply" and "reply" in record:
            replies.setdefault(record["item"], {})[record["asked"]] = record["reply"]
    try:
        rows = [_row(record, replies.get(record["id"], {})) for record in records if record["kind"] == "item"]
    except (KeyError, TypeError, ValueError) as error:
        raise RecordsUnusable(f"the records lack what they should have: {error!r}") from error
    answered = [row for row in rows if row is not None]
    if not answered:
        raise RecordsUnusable("there is nothing to report on yet: no item has a System 1 answer")
    all_replies = [reply for each in replies.values() for reply in each.values()]
    return RecordedRouting(
        runs=runs,
        rows=answered,
        unanswered=len(rows) - len(answered),
        failures=_failures([record for record in records if record["kind"] == "reply"]),
        digests=collected_digests(each.get("prompt_digests") or {} for each in (*runs, *all_replies)),
        spent=_in_all(all_replies),
        hours=sum(reply["duration_ms"] for reply in all_replies) / 3_600_000,
    )


def _failures(replies: Sequence[Record]) -> Mapping[str, int]:
    """Failed requests that were not answered when they were asked again, by reason [count]."""
    answered = {(record["item"], record["asked"]) for record in replies if "reply" in record}
    failed = {(record["item"], record["asked"]): error_of(record) for record in replies}
    return Counter(error_reason(error) for key, error in failed.items() if error is not None and key not in answered)


def _in_all(replies: Sequence[Record]) -> Spent:
    each = [_spent(reply, stage) for reply in replies for stage in reply["usage"]["stages"]]
    return Spent(
        generations=sum(spent.generations for spent in each),
        prompt_tokens=sum(spent.prompt_tokens for spent in each),
        completion_tokens=sum(spent.completion_tokens for spent in each),
    )


def _row(item: Record, replies: Mapping[str, Record]) -> Row | None:
    """The row of one item; None without a System 1 answer."""
    drafted = str(replies.get(DRAFT, {}).get("draft") or "")
    single_pass = _single_pass(replies[SINGLE_PASS]) if SINGLE_PASS in replies else None
    text = drafted or (single_pass.text if single_pass else "")
    if not drafted and single_pass is None:
        return None
    known = Known(
        answer=item["answer"],
        answer_type=AnswerType(item["answer_type"]),
        aliases=tuple(item["aliases"]),
        choices=tuple(item["choices"]),
    )
    return Row(
        item=item["id"],
        dataset=item["dataset"],
        label=scored(text, known),
        prompt_characters=item["prompt_characters"],
        readings={name: _reading(reply) for name, reply in replies.items() if name != SINGLE_PASS},
        single_pass=single_pass,
        drafted=drafted,
    )


def _reading(reply: Record) -> Reading:
    msv: Mapping[str, Any] = reply["msv"] or {}
    activation: Mapping[str, Any] = reply["activation"] or {}
    weights = activation.get("weights") or {}
    reasons = msv.get("unknown_reasons") or {}
    names = ("emotional_response", *weights)
    return Reading(
        activation=activation.get("value"),
        sent=reply["system"] == "SYSTEM_TWO",
        components={name: msv[name] for name in names if msv.get(name) is not None},
        reasons={name: _in_short(reasons[name]) for name in weights if name in reasons},
        parts=msv.get("parts") or {},
        weights=weights,
        assess=_spent(reply, ASSESS),
        duration_ms=reply["duration_ms"],
    )


def _in_short(reason: str) -> str:
    """`reason` up to its name, without the details of one case.

    Example:
        >>> _in_short("there is no draft: BACKEND_OVERLOADED: 3 requests wait"), _in_short("nothing is stored")
        ('there is no draft: BACKEND_OVERLOADED', 'nothing is stored')
    """
    named = _NAMED.match(reason)
    return named[0] if named else reason


def _single_pass(run: Record) -> SinglePassAnswer:
    return SinglePassAnswer(
        text=run["answer"], model=run["model"], spent=_spent(run, SYSTEM_ONE), duration_ms=run["duration_ms"]
    )


def _spent(reply: Record, stage: str) -> Spent:
    usage = reply["usage"]["stages"].get(stage, {})
    return Spent(
        generations=usage.get("generations", 0),
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
    )
