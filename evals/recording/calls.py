"""The requests that record one item, and what is kept of their replies. Pure.

Every answer is asked for through the suite's own APIs: the System 1 answer with its check by the router's assessor
`draft`, each vote by the arbiter as a vote of one. Only the check in a fresh message is the evaluation's own prompt.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import log
from typing import Any

from evals import prompts
from evals.harness.arms import Call
from evals.harness.item_records import content_digest
from evals.items import Item
from evals.recording.values import CheckRecord, ItemRecord, RecordedAnswer
from kernel.answers import canonical, cluster_forms, is_right
from kernel.msv.signals import YES, yes_probability
from kernel.seeds import derived_seed
from kernel.votes.drafts import draft_answer
from kernel.votes.votes import VoteMode
from sandbox.client_mathematics import client_mathematics
from sandbox.mathematics import TIMEOUT

# Names of what is recorded, by its source.
DRAFT, REASONED, PROGRAM, OTHER = "draft", "reasoned", "program", "other"
SOURCES = (DRAFT, REASONED, PROGRAM, OTHER)
# Reasoned answers of the default model [count].
REASONED_ANSWERS = 3
# The assessor that writes the System 1 answer and checks it inside the conversation.
ASSESSOR = "draft"
# Likely first tokens that a check asks for [count].
ALTERNATIVES = 20
# Characters of an answer that is kept as it is; of a longer one a digest is kept.
MOST_CHARACTERS = 60


def draft_call(item: Item, seed: int, timeout_ms: int) -> Call:
    """The System 1 answer, with the state that the assessor `draft` measures of it."""
    body = {**_asked(item, seed, timeout_ms, DRAFT), "assessor": ASSESSOR}
    return Call(service="router", path="/v1/assess", body=body)


def vote_calls(item: Item, seed: int, timeout_ms: int, other: str) -> Mapping[str, Sequence[Call]]:
    """One vote each, by source.

    Args:
        item: The item.
        seed: Seed of the recording.
        timeout_ms: Time that one request may take [ms].
        other: Name of the other model in the catalogue; empty: there is none.
    """
    reasoned, program = {"mode": VoteMode.REASONED.value}, {"mode": VoteMode.PROGRAM.value}
    asked = {REASONED: [reasoned] * REASONED_ANSWERS, PROGRAM: [program]}
    if other:
        asked[OTHER] = [{"mode": VoteMode.REASONED.value, "model": other}]
    return {
        name: [_vote(item, seed, timeout_ms, source, f"{name} {place}") for place, source in enumerate(sources)]
        for name, sources in asked.items()
    }


def check_call(item: Item, answer: str, seed: int, timeout_ms: int) -> Call:
    """The one-token check of an answer in a fresh message."""
    body = {
        "model": "metacog/system1",
        "messages": [{"role": "user", "content": prompts.proposed(item, answer).text}],
        "seed": derived_seed(seed, "eval", "check", item.id),
        "max_tokens": 1,
        "logprobs": True,
        "top_logprobs": ALTERNATIVES,
        "metacog": {"fallback": False, "envelope": {"timeout_ms": timeout_ms}},
    }
    return Call(service="router", path="/v1/chat/completions", body=body)


def draft_text(reply: Mapping[str, Any]) -> str:
    """The System 1 answer in the reply to `draft_call`; empty where there is none."""
    return str(reply.get("draft") or "")


def proposed_answer(item: Item, text: str) -> str:
    """The answer that the fresh message proposes: the one that the draft gives, else its last line."""
    found = draft_answer(text, item.answer_type, options=item.choices or ())
    return found or next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def recorded_draft(item: Item, reply: Mapping[str, Any], seconds: float) -> RecordedAnswer:
    """What is kept of the System 1 answer."""
    found = draft_answer(draft_text(reply), item.answer_type, options=item.choices or ())
    tokens = (reply["usage"]["stages"].get("system1") or {}).get("completion_tokens")
    return _recorded(item, found, tokens, seconds, "" if found else "no answer of this type could be read")


def recorded_vote(item: Item, reply: Mapping[str, Any]) -> RecordedAnswer:
    """What is kept of one vote."""
    (vote,) = reply["votes"]
    return _recorded(
        item, vote["answer"], vote["completion_tokens"], vote["duration_ms"] / 1000, vote["invalid_reason"] or ""
    )


def recorded_checks(draft: Mapping[str, Any], check: Mapping[str, Any] | None) -> CheckRecord:
    """What is kept of both framings of the one-token check.

    Args:
        draft: Reply to `draft_call`.
        check: Reply to `check_call`; None where there was no answer to check.
    """
    inside = draft["msv"]["parts"].get("check")
    top = _first_tokens(check) if check else ()
    said = [logprob for token, logprob in top if token.strip().lower() in YES]
    return CheckRecord(
        inside=inside,
        inside_logprob=log(inside) if inside else None,
        alone=yes_probability(top),
        alone_logprob=max(said, default=None),
    )


def item_record(
    item: Item,
    answers: Mapping[str, Sequence[RecordedAnswer]],
    checks: CheckRecord,
    draft: Mapping[str, Any],
) -> ItemRecord:
    """The record of an item: nothing of its question but a digest."""
    return ItemRecord(
        id=item.id,
        dataset=item.dataset,
        dimension=item.dimension,
        answer_type=item.answer_type,
        options=len(item.choices or ()),
        digest=content_digest(item),
        prompt_characters=len(prompts.question(item).text),
        answers=_alike(answers, item),
        checks=checks,
        state={
            name: draft["msv"][name]
            for name in ("correctness", "conflict", "importance", "emotional_response")
            if draft["msv"].get(name) is not None
        },
        parts=dict(draft["msv"]["parts"]),
        spent={name: stage["completion_tokens"] for name, stage in draft["usage"]["stages"].items()},
    )


def _asked(item: Item, seed: int, timeout_ms: int, name: str) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": prompts.question(item).text}],
        "seed": derived_seed(seed, "eval", name, item.id),
        "envelope": {"timeout_ms": timeout_ms},
    }


def _vote(item: Item, seed: int, timeout_ms: int, source: Mapping[str, str], name: str) -> Call:
    body = {
        **_asked(item, seed, timeout_ms, name),
        "answer_type": item.answer_type.value,
        "sources": [source],
        "agree": 1,
        "most": 1,
    }
    return Call(service="arbiter", path="/v1/votes", body=body)


def _recorded(item: Item, answer: str | None, tokens: int | None, seconds: float, invalid: str) -> RecordedAnswer:
    form = None if answer is None else canonical(answer, item.answer_type, options=item.choices or ())
    if answer is None or form is None:
        return RecordedAnswer(
            answer=None, right=False, tokens=tokens, seconds=round(seconds, 2), invalid=_short(invalid)
        )
    options, aliases, mathematics = item.choices or (), item.aliases or (), client_mathematics()
    right = is_right(answer, item.answer, item.answer_type, options=options, aliases=aliases, mathematics=mathematics)
    if mathematics.undecided and right is None:
        return RecordedAnswer(answer=None, right=False, tokens=tokens, seconds=round(seconds, 2), invalid=TIMEOUT)
    return RecordedAnswer(answer=form, right=right is True, tokens=tokens, seconds=round(seconds, 2))


def _short(reason: str) -> str:
    """The kind of a reason, without what a model or a program wrote."""
    return reason.split(":")[0][:MOST_CHARACTERS]


def _alike(answers: Mapping[str, Sequence[RecordedAnswer]], item: Item) -> Mapping[str, Sequence[RecordedAnswer]]:
    """Return the answers with equal ones spelled alike, in whatever order they came, and long ones as digests."""
    given = [one.answer for each in answers.values() for one in each if one.answer is not None]
    clusters = cluster_forms(given, item.answer_type, mathematics=client_mathematics())
    named = {form: one.canonical for one in clusters for form in one.spellings}

    def kept(answer: str | None) -> str | None:
        return None if answer is None else _kept(named.get(answer, answer))

    return {name: [one.spelled(kept(one.answer)) for one in each] for name, each in answers.items()}


def _kept(answer: str) -> str:
    if len(answer) <= MOST_CHARACTERS:
        return answer
    return f"sha256 {sha256(answer.encode()).hexdigest()[:16]}"


def _first_tokens(reply: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    content = (reply["choices"][0].get("logprobs") or {}).get("content") or ()
    return [(one["token"], float(one["logprob"])) for one in (content[0].get("top_logprobs") or ())] if content else ()
