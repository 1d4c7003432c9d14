"""Records without wording: ids, answers, tokens and labels. Pure.

A text of a model may repeat the question, and the options of an item are part of it. So a text is replaced by the
answer that is read off it, where there is one, and by its digest where there is none: equal texts stay equal. A known
program is a digest too, and of the tests of a program only whether it passed them: tests decide, and not its text. A
program that a model wrote is its place among those to the same item, since votes compare programs, and order ties.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from evals.harness.rows import recorded_item
from evals.records import Record
from evals.scorers.answers import Known
from kernel.answers import AnswerType, canonical, extract, is_short, rules_of
from kernel.answers.words import SHORT_CHARACTERS

# A string with no more words and characters than these is a name, a state or a short answer, and no text.
MOST_WORDS, MOST_CHARACTERS = 3, 64
# What stands before the answer that a text is replaced by.
ANSWER = "Final Answer: "
# With this begins what stands for a text without a readable answer.
DIGEST = "digest:"
# Parts of a reply that hold what services and models said; the others are names, numbers and digests.
SAID = ("reply", "error")
# What became of programs; its details are whatever a program printed or raised.
CHECKS = "checks"
# Why something is unknown, in the words of services; what they quote of a text is left out.
REASONS = "unknown_reasons"


def published(records: Sequence[Record]) -> Sequence[Record]:
    """Return `records` without wording.

    Raises:
        RecordsUnusable: When an item lacks what it should have.
    """
    known = {record["id"]: recorded_item(record).known for record in records if record["kind"] == "item"}
    asked = {name for name, each in known.items() if rules_of(each.answer_type).is_program}
    written: dict[str, set[str]] = {name: set() for name in asked}
    for record in records:
        if record.get("item") in asked:
            written[record["item"]].update(_programs({name: record[name] for name in SAID if name in record}))
    ordered = {name: sorted(programs) for name, programs in written.items()}
    return [
        _published(record, known.get(record.get("item", "")), ordered.get(record.get("item", ""), ()))
        for record in records
    ]


def _programs(part: Any) -> Iterator[str]:  # noqa: ANN401 - whatever a service replies
    """Yield the programs in all texts of a reply, in the form in which they are compared."""
    if isinstance(part, Mapping | list):
        for one in part.values() if isinstance(part, Mapping) else part:
            yield from _programs(one)
    elif isinstance(part, str) and not _is_short(part) and (program := _program(part)) is not None:
        yield program


def _program(text: str) -> str | None:
    found = extract(text, AnswerType.CODE)
    return None if found is None else canonical(found, AnswerType.CODE) or found


def _published(record: Record, known: Known | None, programs: Sequence[str]) -> Record:
    if record["kind"] == "item":
        return _published_item(record, recorded_item(record).known)
    parts = {name: _without_wording(part, known, programs) if name in SAID else part for name, part in record.items()}
    if record.get(CHECKS):
        parts[CHECKS] = {text: {"passed": check.get("passed")} for text, check in record[CHECKS].items()}
    return parts


def _published_item(record: Record, known: Known) -> Record:
    options = [chr(ord("A") + place) for place in range(len(record["choices"]))]
    if rules_of(known.answer_type).is_program:
        return {**record, "choices": options, "answer": _digest(known.answer), "aliases": []}
    answer, *aliases = (_published_answer(one, known) for one in (known.answer, *known.aliases))
    return {**record, "choices": options, "answer": answer, "aliases": aliases}


def _published_answer(answer: str, known: Known) -> str:
    """Return what stands for a known answer: what is long stays long, since equality alone does not decide on it."""
    stands = condensed(answer, known).removeprefix(ANSWER)
    is_long = rules_of(known.answer_type).is_free_text and not is_short(answer)
    return stands.ljust(SHORT_CHARACTERS + 1, ".") if is_long else stands


def _without_wording(part: Any, known: Known | None, programs: Sequence[str]) -> Any:  # noqa: ANN401 - a reply's part
    if isinstance(part, Mapping):
        return {
            name: {key: str(why).partition('"')[0] for key, why in one.items()}
            if name == REASONS and isinstance(one, Mapping)
            else _without_wording(one, known, programs)
            for name, one in part.items()
        }
    if isinstance(part, list):
        return [_without_wording(one, known, programs) for one in part]
    return condensed(part, known, programs) if isinstance(part, str) else part


def condensed(text: str, known: Known | None, programs: Sequence[str] = ()) -> str:
    """Return what stands for a text: itself where it is short, else its answer, else its digest.

    Args:
        text: The text.
        known: The right answer of the item that it is about, by whose type it is read; None without an item.
        programs: All programs to the item, in order; none where it asks for no program.

    Example:
        >>> from kernel.answers import AnswerType
        >>> number = Known(answer="42", answer_type=AnswerType.NUMBER)
        >>> condensed("Six times seven is 42. Final Answer: 42", number), condensed("qwen2.5-1.5b", number)
        ('Final Answer: 42', 'qwen2.5-1.5b')
        >>> condensed("I do not know that at all.", number)
        'digest:e6e28ff3'
    """
    if _is_short(text):
        return text
    if programs and (program := _program(text)) in programs:
        return f"{ANSWER}program_{programs.index(program):04d}"
    answer = None if known is None else extract(text, known.answer_type, options=known.choices)
    if answer is not None and known is not None and known.choices:
        answer = canonical(answer, known.answer_type, options=known.choices)
    stands = f"{ANSWER}{answer}"
    if answer is None or known is None or not _is_short(answer) or _read(stands, known) != answer:
        return _digest(text)
    return stands


def is_wordless(text: str) -> bool:
    """Return whether a text is what published records have instead of one: a digest, or an answer alone.

    Example:
        >>> is_wordless("digest:e6e28ff3"), is_wordless("Final Answer: B"), is_wordless("It is so. Final Answer: B")
        (True, True, False)
    """
    return text.startswith(DIGEST) or (text.startswith(ANSWER) and _is_short(text.removeprefix(ANSWER)))


def _digest(text: str) -> str:
    return f"{DIGEST}{sha256(text.encode()).hexdigest()[:8]}"


def _read(text: str, known: Known) -> str | None:
    """Return the answer that is read off a published text: its options are letters."""
    options = [chr(ord("A") + place) for place in range(len(known.choices))]
    return extract(text, known.answer_type, options=options)


def _is_short(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and len(text.split()) <= MOST_WORDS
