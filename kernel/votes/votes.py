"""Votes are asked for one by one until enough answers agree.

Source: ours (papers.md 5.1). Everything is deterministic given the votes in their order; who asks for them is not known
here.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from math import log

from kernel.answers import (
    IN_THIS_PROCESS,
    AnswerType,
    Mathematics,
    canonical,
    rules_of,
    same_canonical,
)
from kernel.answers.equality import number_form
from kernel.answers.units import CountedNumber, homes, quantity, same_quantity, with_units
from kernel.errors import Code, MetacogError
from kernel.msv import MSV
from kernel.thresholds import reaches
from kernel.values import value
from kernel.votes.agreement import AgreementLevel, first_stop

# Importance from which one more vote must agree [0..1], and how many then agree [count].
IMPORTANT = 0.7
AGREE_WHERE_IMPORTANT = 3
# Votes that one question may ask for at most [count]: a bound on requests, not an advice.
MOST_VOTES = 64
# Share of the time left after which a vote is overdue, and another source is asked beside it [0..1].
OVERDUE_TIME_SHARE = 1 / 3
# Length of a free text that can be compared; longer ones are equal by meaning alone [words; characters].
MOST_WORDS, MOST_CHARACTERS = 12, 120
# Key of the programs that pass the tests: they count as one answer.
PASSING = "passes the tests"
# Begins the name of a source that is a model of the catalogue alone; no identifier of an agent has a space.
MODEL_ALONE = "model "
# Odds of a voter are read from competences within these bounds, so that no single voter outweighs all others [0..1].
SURELY_WRONG, SURELY_RIGHT = 0.01, 0.99


class VoteMode(StrEnum):
    """A mode is the way in which a model comes to its answer."""

    DRAFT = "DRAFT"
    REASONED = "REASONED"
    PROGRAM = "PROGRAM"


class VoteStop(StrEnum):
    """The reason why no further vote is asked for."""

    AGREED = "AGREED"
    PASSED_TESTS = "PASSED_TESTS"
    MOST_ASKED = "MOST_ASKED"
    OUT_OF_REACH = "OUT_OF_REACH"
    NO_SOURCE = "NO_SOURCE"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"


class VoteOutcome(StrEnum):
    """The outcome of a vote: enough answers agree, fewer do, or there is no valid answer."""

    DECIDED = "DECIDED"
    UNDECIDED = "UNDECIDED"
    ABSTAINED = "ABSTAINED"


class InvalidVoteRule(MetacogError):
    """The numbers of a vote do not fit together."""

    code = Code.INVALID_ARGUMENT
    reason = "INVALID_VOTE_RULE"


@value
class VoteSource:
    """A source of votes is a model in one mode.

    Attributes:
        model: Name of the model, or of the source as `source_name` has it.
        mode: How it comes to its answer.
        competence: Recorded probability that its answers are right [0..1]; None when nothing is recorded.
    """

    model: str
    mode: VoteMode
    competence: float | None = None

    @property
    def log_odds(self) -> float:
        """Return the log-odds of being right [log-odds]; 0, which favours no answer, where nothing is recorded."""
        if self.competence is None:
            return 0.0
        chance = min(max(self.competence, SURELY_WRONG), SURELY_RIGHT)
        return log(chance / (1 - chance))


@value
class SourceParts:
    """The parts of a source's name are an agent, or a model alone; both are empty for the default model."""

    agent: str = ""
    model: str = ""


def source_name(agent: str, model: str) -> str:
    """Return the name of a source: that of its agent, or of its model after `MODEL_ALONE`; empty for the default model.

    Example:
        >>> source_name("ada", ""), source_name("", "small"), source_name("", "")
        ('ada', 'model small', '')
    """
    return agent or (f"{MODEL_ALONE}{model}" if model else "")


def source_parts(name: str) -> SourceParts:
    """Return the parts of a source's name.

    Example:
        >>> source_parts("model small"), source_parts("ada")
        (SourceParts(agent='', model='small'), SourceParts(agent='ada', model=''))
    """
    if name.startswith(MODEL_ALONE):
        return SourceParts(model=name.removeprefix(MODEL_ALONE))
    return SourceParts(agent=name)


@value
class Vote:
    """A vote is the answer that one source gave.

    Attributes:
        source: Who gave it.
        answer: The answer alone, as `kernel.answers.extract` found it; None for an invalid vote.
        passes_tests: Whether the program passes the question's tests; None where there are none.
    """

    source: VoteSource
    answer: str | None
    passes_tests: bool | None = None


@value
class VoteRule:
    """A vote rule says when to stop.

    Attributes:
        agree: Votes for one answer that decide [count, 1..most].
        most: Votes that are asked for at most [count, 1..64].
        ahead: Votes that are asked for at once while the outcome is open [count, 1..most].
        ask_all: Whether all `most` votes are asked for, also where enough agree.
        enough: The least strict agreement at which asking stops all the same, where it would stop first; None: none.

    Raises:
        InvalidVoteRule: On construction.
    """

    agree: int = 2
    most: int = 5
    ahead: int = 1
    ask_all: bool = False
    enough: AgreementLevel | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST_VOTES:
            raise InvalidVoteRule(f"most is {self.most}; ask for 1 to {MOST_VOTES} votes")
        if not 1 <= self.agree <= self.most:
            raise InvalidVoteRule(f"agree is {self.agree}; it must lie between 1 and most, which is {self.most}")
        if not 1 <= self.ahead <= self.most:
            raise InvalidVoteRule(f"ahead is {self.ahead}; it must lie between 1 and most, which is {self.most}")


DEFAULT_RULE = VoteRule()


@value
class VoteGroup:
    """A group holds the votes for one answer.

    Attributes:
        canonical: Canonical form of its first answer, of those with a unit where there are any; of programs, a name of
            the group.
        votes: Indexes of its votes, in the order in which they came [>= 0].
        log_odds: Sum of the voters' log-odds of being right [log-odds].
        without_unit: Those of its votes that state no unit, where others do [>= 0].
    """

    canonical: str
    votes: tuple[int, ...]
    log_odds: float
    without_unit: tuple[int, ...] = ()


def default_agree(msv: MSV | None, default: int = DEFAULT_RULE.agree) -> int:
    """Return the number of votes that must agree: one more than usual where much depends on the answer.

    Args:
        msv: State of the question; None where it is unknown.
        default: The usual number [count, >= 1].

    Returns:
        Votes that must agree [count, >= 1].

    Example:
        >>> default_agree(MSV(importance=0.7)), default_agree(MSV(importance=0.69)), default_agree(None)
        (3, 2, 2)
    """
    is_important = msv is not None and msv.importance is not None and reaches(msv.importance, IMPORTANT)
    return max(default, AGREE_WHERE_IMPORTANT) if is_important else default


def is_comparable(answer: str, answer_type: AnswerType) -> bool:
    """Return whether an answer of this type can be compared with another without a judgement of meaning.

    Programs are equal by their tests alone, and long texts by their meaning.

    Example:
        >>> is_comparable("Paris", AnswerType.TEXT), is_comparable("def f(): return 1", AnswerType.CODE)
        (True, False)
    """
    rules = rules_of(answer_type)
    if rules.is_program:
        return False
    return not rules.is_free_text or (len(answer.split()) <= MOST_WORDS and len(answer) <= MOST_CHARACTERS)


def vote_groups(
    votes: Sequence[Vote],
    answer_type: AnswerType,
    *,
    options: Sequence[str] = (),
    mathematics: Mathematics = IN_THIS_PROCESS,
) -> tuple[VoteGroup, ...]:
    """Group the valid votes by equal answers, the winner first.

    Args:
        votes: Votes in the order in which they came.
        answer_type: Type of their answers.
        options: Texts of a choice's options in their order.
        mathematics: Who compares expressions.

    Returns:
        Larger groups first; of equal ones that with the larger sum of log-odds, then that whose first vote came first.
        A vote joins the first group with an equal answer; a number without a unit that of its number and any unit that
        has most votes, of several the first. Programs that pass the tests form one group, which wins
        whatever its size; all others stand alone.

    Source:
        Ours (papers.md 5.1); equality as in papers.md 2.3.

    Example:
        >>> source = VoteSource(model="m", mode=VoteMode.REASONED)
        >>> given = [Vote(source=source, answer=answer) for answer in ("4", "1,000", None, "1000.0")]
        >>> [(group.canonical, group.votes) for group in vote_groups(given, AnswerType.NUMBER)]
        [('1000', (1, 3)), ('4', (0,))]
    """
    keys: list[str | None] = []
    forms = [None if one.answer is None else canonical(one.answer, answer_type, options=options) for one in votes]
    rules = rules_of(answer_type)
    for vote, form in zip(votes, forms, strict=True):
        known = dict.fromkeys(key for key in keys if key is not None)
        if form is None:
            keys.append(None)
        elif rules.is_program:
            keys.append(PASSING if vote.passes_tests else f"{len(keys)}: {form}")
        else:
            plain = number_form(form) if rules.is_numeric else form
            keys.append(next((key for key in known if same_canonical(plain, key, answer_type, mathematics)), plain))
    return _with_units(keys, forms, votes) if rules.is_numeric else grouped_by_key(keys, votes)


def _with_units(
    keys: Sequence[str | None], forms: Sequence[str | None], votes: Sequence[Vote]
) -> tuple[VoteGroup, ...]:
    """Return the groups of numbers, separated by unit where numbers are equal."""
    valid = [(place, key, form) for place, (key, form) in enumerate(zip(keys, forms, strict=True)) if key and form]
    found = homes([CountedNumber(number=key, form=form) for _, key, form in valid])
    with_unit = {place for place, _, form in valid if number_form(form) != form}
    members: dict[int, list[int]] = {}
    for (place, _, _), home in zip(valid, found, strict=True):
        members.setdefault(home, []).append(place)
    named: list[str | None] = [None] * len(votes)
    for places in members.values():
        names = with_units(form for place in places if (form := forms[place]) is not None)
        name = names[0] if names else keys[places[0]]
        for place in places:
            named[place] = name
    groups = grouped_by_key(named, votes)
    return tuple(
        replace(one, without_unit=tuple(place for place in one.votes if place not in with_unit))
        if with_unit.intersection(one.votes)
        else one
        for one in groups
    )


def grouped_by_key(keys: Sequence[str | None], votes: Sequence[Vote]) -> tuple[VoteGroup, ...]:
    """Group votes whose answers were compared already: equal keys are equal answers, None is an invalid vote.

    Example:
        >>> votes = [Vote(source=VoteSource(model="m", mode=VoteMode.REASONED), answer=key) for key in "ab?b"]
        >>> [group.votes for group in grouped_by_key(["a", "b", None, "b"], votes)]
        [(1, 3), (0,)]
    """
    members: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        if key is not None:
            members.setdefault(key, []).append(index)
    groups = [
        VoteGroup(
            canonical=key,
            votes=tuple(indexes),
            log_odds=round(sum(votes[index].source.log_odds for index in indexes), 9),
        )
        for key, indexes in members.items()
    ]

    def rank(group: VoteGroup) -> tuple[bool, int, float, int]:
        return (not _passes(group, votes), -len(group.votes), -group.log_odds, group.votes[0])

    return tuple(sorted(groups, key=rank))


def changed_lead(before: Sequence[VoteGroup], after: Sequence[VoteGroup], answer_type: AnswerType) -> bool:
    """Return whether another answer leads after a vote than before it; a unit that joins a number is no other answer.

    Args:
        before: The groups before the vote, the leading one first.
        after: Those after it.
        answer_type: Type of the answers.

    Example:
        >>> bare = VoteGroup(canonical="10", votes=(0,), log_odds=0.0)
        >>> km, mi = (VoteGroup(canonical=f"10 {unit}", votes=(0, 1), log_odds=0.0) for unit in ("km", "mi"))
        >>> [changed_lead([one], [other], AnswerType.NUMBER) for one, other in ((bare, km), (km, km), (km, mi))]
        [False, False, True]
    """
    if not before or not after or before[0].canonical == after[0].canonical:
        return bool(after) and not before
    first, second = (quantity(groups[0].canonical) for groups in (before, after))
    if not rules_of(answer_type).is_numeric or (second is None and first is not None):
        return True
    if first is None or second is None:
        return not set(before[0].votes) <= set(after[0].votes)
    return not same_quantity(first, second)


def shown_vote(group: VoteGroup, votes: Sequence[Vote]) -> int:
    """Return the index of the vote whose text answers for its group [>= 0].

    That is the first that is no program, of those that state its unit where there are any.

    Example:
        >>> votes = [Vote(source=VoteSource(model="m", mode=mode), answer="4") for mode in VoteMode]
        >>> shown_vote(VoteGroup(canonical="4", votes=(2, 1), log_odds=0.0), votes)
        1
        >>> shown_vote(VoteGroup(canonical="4", votes=(2,), log_odds=0.0), votes)
        2
    """
    programs = [index for index in group.votes if votes[index].source.mode is VoteMode.PROGRAM]
    return first_shown(group.votes, programs=programs, without_unit=group.without_unit)


def first_shown(votes: Sequence[int], *, programs: Collection[int] = (), without_unit: Collection[int] = ()) -> int:
    """Return the vote that is shown for an answer [>= 0]: the first in words, of those with a unit if any have one.

    Args:
        votes: Their numbers, in the order in which they came, at least one [>= 0].
        programs: Those that a program gave [>= 0].
        without_unit: Those that state no unit, where others do [>= 0].

    Example:
        >>> first_shown([0, 2, 3], programs=[2], without_unit=[0]), first_shown([0, 2], programs=[2], without_unit=[0])
        (3, 0)
    """
    in_words = [index for index in votes if index not in programs]
    with_unit = [index for index in in_words if index not in without_unit]
    return (with_unit or in_words or votes)[0]


def _passes(group: VoteGroup, votes: Sequence[Vote]) -> bool:
    return bool(votes[group.votes[0]].passes_tests)


def vote_stop(groups: Sequence[VoteGroup], votes: Sequence[Vote], rule: VoteRule) -> VoteStop | None:
    """Return why no further vote is asked for; None while the outcome is open.

    Args:
        groups: Groups of the votes, the winner first.
        votes: All votes so far, the invalid ones too: they count towards `rule.most`.
        rule: The rule.

    Source:
        Ours (papers.md 5.1); papers.md 5.3 where all votes are asked for. A program that passes the tests needs no
        second one.

    Example:
        >>> source = VoteSource(model="m", mode=VoteMode.REASONED)
        >>> given = [Vote(source=source, answer=answer) for answer in ("A", "B", None, "C")]
        >>> vote_stop(vote_groups(given, AnswerType.CHOICE), given, VoteRule(agree=3))
        <VoteStop.OUT_OF_REACH: 'OUT_OF_REACH'>
    """
    if groups and _passes(groups[0], votes):
        return VoteStop.PASSED_TESTS
    largest = len(groups[0].votes) if groups else 0
    left = rule.most - len(votes)
    if rule.ask_all and left > 0 and not _is_enough(groups, len(votes), rule):
        return None
    if largest >= rule.agree:
        return VoteStop.AGREED
    if left <= 0:
        return VoteStop.MOST_ASKED
    return VoteStop.OUT_OF_REACH if largest + left < rule.agree else None


def _is_enough(groups: Sequence[VoteGroup], votes: int, rule: VoteRule) -> bool:
    """Return whether asking would stop first now, with an agreement that is strict enough."""
    if rule.enough is None or not groups:
        return False
    members = [group.votes for group in groups]
    if first_stop(members, votes, agree=rule.agree, most=rule.most) < votes:
        return False
    against = sum(len(group) for group in members[1:])
    return AgreementLevel(agreeing=len(members[0]), against=against).is_as_strict_as(rule.enough)


def vote_outcome(groups: Sequence[VoteGroup], votes: Sequence[Vote], rule: VoteRule) -> VoteOutcome:
    """Return the outcome of the votes so far: a winner with fewer votes than `rule.agree` is undecided.

    Example:
        >>> vote_outcome((), (), VoteRule())
        <VoteOutcome.ABSTAINED: 'ABSTAINED'>
    """
    if not groups:
        return VoteOutcome.ABSTAINED
    is_decided = _passes(groups[0], votes) or len(groups[0].votes) >= rule.agree
    return VoteOutcome.DECIDED if is_decided else VoteOutcome.UNDECIDED


def sources_by_competence(sources: Sequence[VoteSource]) -> tuple[VoteSource, ...]:
    """Return the sources in the order in which they are asked by default.

    The draft is first, since it exists already; then the higher recorded competence. Sources without a record come
    last, in the order given.

    Example:
        >>> sources = [VoteSource(model=name, mode=VoteMode.REASONED, competence=level)
        ...            for name, level in (("a", None), ("b", 0.4), ("c", 0.8))]
        >>> [source.model for source in sources_by_competence(sources)]
        ['c', 'b', 'a']
    """
    return tuple(
        sorted(
            sources, key=lambda one: (one.mode is not VoteMode.DRAFT, one.competence is None, -(one.competence or 0))
        )
    )


def next_source(order: Sequence[VoteSource], asked: Sequence[VoteSource]) -> VoteSource | None:
    """Return the source of the next vote: the first that has been asked least often; a draft votes once.

    Args:
        order: All sources that can still be asked, in their order.
        asked: The source of each vote that has been asked for.

    Returns:
        The source; None when there is none.

    Source:
        Ours (papers.md 5.1).

    Example:
        >>> draft, a, b = (VoteSource(model=name, mode=mode) for name, mode in
        ...                (("a", VoteMode.DRAFT), ("a", VoteMode.REASONED), ("b", VoteMode.REASONED)))
        >>> next_source([draft, a, b], [draft, a, b]) == a, next_source([draft], [draft])
        (True, None)
    """
    asked_names = [(source.model, source.mode) for source in asked]
    counts = {(source.model, source.mode): asked_names.count((source.model, source.mode)) for source in order}
    left = [one for one in order if one.mode is not VoteMode.DRAFT or not counts[one.model, one.mode]]
    return min(left, key=lambda one: counts[one.model, one.mode], default=None)


def votes_to_ask(rule: VoteRule, *, asked: int, outstanding: int) -> int:
    """Return how many further votes are asked for now, while the outcome is open [count, >= 0].

    Args:
        rule: The rule.
        asked: Votes that have been asked for so far, the outstanding ones too [count].
        outstanding: Votes that have been asked for and have not come [count].

    Example:
        >>> votes_to_ask(VoteRule(ahead=2), asked=1, outstanding=1), votes_to_ask(VoteRule(), asked=5, outstanding=0)
        (1, 0)
    """
    return max(0, min(rule.ahead - outstanding, rule.most - asked))
