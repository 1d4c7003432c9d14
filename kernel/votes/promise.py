"""A promise bounds the share of errors among the answers that are given.

Source: ours (papers.md 5.3). Agreement has levels, the strictest first; labels that were drawn at random prove which of
them keep the promise. A level is tested together with all stricter ones, in a fixed order that ends at the first
failure (fixed-sequence testing, which needs no correction for the number of levels), and only at 50, 100, 200, ...
labels, with the error probability split over these looks, so that looking again does not break the promise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import count
from math import ceil, log

from scipy.special import betaincinv

from kernel.errors import MalformedRequest
from kernel.thresholds import DECIMALS, exceeds
from kernel.values import value
from kernel.votes.agreement import AgreementLevel, VoteAgreement

# Labels at the first look [count]; each further look needs twice as many.
FIRST_LOOK = 50
# Probability that a list of levels holds one that breaks the promise, over all looks together [0..1].
ERROR_PROBABILITY = 0.05
# Newest labels that count [count], and labels from which a kind of question has a list of its own [count].
MOST_LABELS = 5_000
KIND_LABELS = 100
# Smallest and largest error that can be promised [0..1]: a smaller one needs more labels without an error than count.
LEAST_ERROR, MOST_ERROR = 0.002, 0.5


def check_error_at_most(error_at_most: float) -> None:
    """Return if this error can be promised.

    Args:
        error_at_most: The promised error [0..1].

    Raises:
        MalformedRequest: When it lies outside `LEAST_ERROR` to `MOST_ERROR`, or is no number.
    """
    if not LEAST_ERROR <= error_at_most <= MOST_ERROR:
        raise MalformedRequest(
            f"error_at_most is {error_at_most}; it must lie between {LEAST_ERROR} and {MOST_ERROR}",
            field="promise.error_at_most",
        )


@value
class LevelCount:
    """This value counts the labelled answers at one level.

    Attributes:
        level: The level.
        labels: Labelled answers [count, >= 1].
        errors: Wrong ones among them [count, 0..labels].

    Raises:
        ValueError: On construction, for no label, or errors that are not between 0 and the labels.
    """

    level: AgreementLevel
    labels: int
    errors: int

    def __post_init__(self) -> None:
        if not 0 <= self.errors <= self.labels or self.labels < 1:
            raise ValueError(f"errors lie between 0 and labels, which is at least 1: {self!r}")


@value
class LabelLook:
    """A look is a number of labels at which levels are tested.

    Attributes:
        number: Its number [>= 1].
        labels: Labels that it needs [count].
        error_probability: Error probability of the tests at this look [0..1].
    """

    number: int
    labels: int
    error_probability: float

    @property
    def counted(self) -> int:
        """Return how many of these labels count, the newest [count]."""
        return min(self.labels, MOST_LABELS)


def look_numbered(number: int) -> LabelLook:
    """Return the look of this number.

    Args:
        number: Its number [>= 1].

    Example:
        >>> look_numbered(2)
        LabelLook(number=2, labels=100, error_probability=0.0125)
    """
    return LabelLook(
        number=number, labels=FIRST_LOOK * 2 ** (number - 1), error_probability=ERROR_PROBABILITY / 2.0**number
    )


def last_look(labels: int) -> LabelLook | None:
    """Return the last look that so many labels allow; None before the first.

    Args:
        labels: Labels that there are [count, >= 0].

    Example:
        >>> last_look(49), last_look(399).labels
        (None, 200)
    """
    return look_numbered((labels // FIRST_LOOK).bit_length()) if labels >= FIRST_LOOK else None


@lru_cache(maxsize=1_024)
def labels_without_error(error_at_most: float, error_probability: float) -> int:
    """Return the labels that prove a level if none of them is wrong [count].

    Args:
        error_at_most: The promised error [0 < error < 1].
        error_probability: Error probability of the test [0 < p < 1].

    Source:
        Ours (papers.md 5.3): n >= log(error probability) / log(1 - error at most).

    Example:
        >>> labels_without_error(0.05, 0.0125)
        86
    """
    return ceil(round(log(error_probability) / log(1 - error_at_most), DECIMALS))


def first_useful_look(error_at_most: float, after: int = 0) -> LabelLook | None:
    """Return the first look after so many labels at which a level without an error is proved; None without one.

    Each look needs more labels without an error than the one before, and only the newest `MOST_LABELS` count.

    Args:
        error_at_most: The promised error [0..1].
        after: Labels that there are [count].

    Example:
        >>> first_useful_look(0.05), first_useful_look(0.002, after=30_000)
        (LabelLook(number=2, labels=100, error_probability=0.0125), None)
    """
    for number in count(1):
        look = look_numbered(number)
        needed = labels_without_error(error_at_most, look.error_probability)
        if needed > MOST_LABELS:
            return None
        if look.labels > after and look.counted >= needed:
            return look
    raise AssertionError("the number of looks has no end")


@lru_cache(maxsize=16_384)
def error_bound(errors: int, labels: int, error_probability: float) -> float:
    """Return the one-sided upper bound of a share of errors [0..1].

    Args:
        errors: Errors seen [count, 0..labels].
        labels: Labels [count, >= 0]; without any the bound is 1.
        error_probability: Probability that the true share lies above the bound, at most [0..1].

    Source:
        Clopper and Pearson 1934 (papers.md 5.3): the quantile 1 - p of Beta(errors + 1, labels - errors).

    Example:
        >>> round(error_bound(0, 100, 0.05), 6), error_bound(3, 3, 0.05)
        (0.029513, 1.0)
    """
    if errors >= labels:
        return 1.0
    return float(betaincinv(errors + 1, labels - errors, 1 - error_probability))


@value
class LevelTest:
    """A level test is what labels say about a level and all stricter ones together.

    Attributes:
        level: The level.
        labels: Labelled answers at it or a stricter one [count].
        errors: Wrong ones among them [count].
        bound: Upper bound of their share of errors at this look [0..1].
        proved: Whether the bound keeps the promise, here and at every stricter level that was tested; None where there
            are too few labels for any result to do so, so that nothing was tested.
    """

    level: AgreementLevel
    labels: int
    errors: int
    bound: float
    proved: bool | None


@value
class ProvedLevels:
    """These levels keep a promise, as far as labels prove it.

    Attributes:
        error_at_most: The promised error [0..1].
        labels: Labels that there are [count].
        look: The look at which the levels were tested; None while there are too few labels for one.
        tests: The levels that occur among the labels, the strictest first.
    """

    error_at_most: float
    labels: int = 0
    look: LabelLook | None = None
    tests: Sequence[LevelTest] = ()

    @property
    def last(self) -> AgreementLevel | None:
        """Return the least strict level that is proved; None without one."""
        return next((test.level for test in reversed(self.tests) if test.proved), None)

    @property
    def kept(self) -> int:
        """Return the labelled answers of this look that would be given [count]."""
        return next((test.labels for test in reversed(self.tests) if test.proved), 0)

    def includes(self, level: AgreementLevel) -> bool:
        """Return whether an answer at this level is given: it is as strict as the last proved one."""
        last = self.last
        return last is not None and level.is_as_strict_as(last)

    @property
    def next_look(self) -> LabelLook | None:
        """Return the next look at which a level may be proved that is not yet; None where no more labels could."""
        return first_useful_look(self.error_at_most, after=self.labels)


def proved_levels(
    counts: Sequence[LevelCount], error_at_most: float, labels: int | None = None, *, unlabelled: int = 0
) -> ProvedLevels:
    """Return which levels keep a promise.

    Args:
        counts: The labelled answers of the last look, by level; their number is that of the look.
        error_at_most: The promised error [0..1].
        labels: Labels that there are in all [count]; None: those that are counted.
        unlabelled: Answers that were drawn and not labelled [count]: each counts as an error at every level.

    Returns:
        Levels in their fixed order. One with too few labels for any result to keep the promise is not tested, which
        depends on numbers of labels alone; the first that is tested and fails ends the list.

    Raises:
        MalformedRequest: For an error that cannot be promised.
        ValueError: For counts of another number of labels than the last look has.

    Source:
        Ours (papers.md 5.3). Passing over levels that no result could prove is ours.

    Example:
        >>> sure, unsure = AgreementLevel(agreeing=3), AgreementLevel(agreeing=2, against=1)
        >>> found = proved_levels(
        ...     [LevelCount(level=unsure, labels=12, errors=4), LevelCount(level=sure, labels=88, errors=0)], 0.05)
        >>> found.includes(sure), found.includes(unsure)
        (True, False)
    """
    check_error_at_most(error_at_most)
    counted = sum(one.labels for one in counts)
    known = counted if labels is None else labels
    look = last_look(known)
    if look is None:
        return ProvedLevels(error_at_most=error_at_most, labels=known)
    if counted != look.counted:
        raise ValueError(f"look {look.number} needs {look.counted} labels, not {counted}")
    return _tested(counts, error_at_most, look, known, unlabelled)


def _tested(
    counts: Sequence[LevelCount], error_at_most: float, look: LabelLook, labels: int, unlabelled: int
) -> ProvedLevels:
    ordered = sorted(_merged(counts).values(), key=lambda one: one.level.strictness, reverse=True)
    tests: list[LevelTest] = []
    number, errors, holds = 0, 0, True
    for one in ordered:
        number, errors = number + one.labels, errors + one.errors
        bound = error_bound(errors + unlabelled, number + unlabelled, look.error_probability)
        is_tested = number >= labels_without_error(error_at_most, look.error_probability)
        holds = holds and not (is_tested and exceeds(bound, error_at_most))
        tests.append(
            LevelTest(
                level=one.level,
                labels=number,
                errors=errors,
                bound=round(bound, DECIMALS),
                proved=holds if is_tested or not holds else None,
            )
        )
    return ProvedLevels(error_at_most=error_at_most, labels=labels, look=look, tests=tests)


def _merged(counts: Sequence[LevelCount]) -> Mapping[AgreementLevel, LevelCount]:
    found: dict[AgreementLevel, LevelCount] = {}
    for one in counts:
        before = found.get(one.level)
        found[one.level] = LevelCount(
            level=one.level,
            labels=one.labels + (before.labels if before else 0),
            errors=one.errors + (before.errors if before else 0),
        )
    return found


class PromiseStage(StrEnum):
    """A stage is where an answer under a promise comes from; each has labels and a list of levels of its own."""

    FIRST = "FIRST"
    WENT_ON = "WENT_ON"
    ESCALATED = "ESCALATED"


# The level of an answer of a stronger model, with which nothing is compared.
ESCALATED_LEVEL = AgreementLevel(agreeing=1)


@value
class PromiseLabel:
    """A promise label is a labelled answer whose question was drawn at random.

    Attributes:
        kind: Kind of the question; empty: unknown.
        agreement: Agreement of its votes.
        right: Whether the winner of the votes is right; false where that is not known, as where a stronger model
            answered and its answer is what was labelled.
        stronger: Whether the stronger model is right on the same question; None where that is not labelled.
    """

    kind: str
    agreement: VoteAgreement
    right: bool
    stronger: bool | None = None


@value
class PromiseLevels:
    """These levels keep a promise on one kind of question, by the stage that an answer comes from.

    Attributes:
        kind: The kind whose labels they rest on; empty: those of all kinds without a list of their own.
        first: Levels at which asking may stop as soon as enough votes agree.
        went_on: Levels after all votes were asked for.
        escalated: The level of the stronger model's answers.
    """

    kind: str
    first: ProvedLevels
    went_on: ProvedLevels
    escalated: ProvedLevels

    def of(self, stage: PromiseStage) -> ProvedLevels:
        """Return the levels of a stage."""
        match stage:
            case PromiseStage.FIRST:
                return self.first
            case PromiseStage.WENT_ON:
                return self.went_on
            case PromiseStage.ESCALATED:
                return self.escalated


def promise_levels(
    labels: Sequence[PromiseLabel], error_at_most: float, kind: str = "", *, unlabelled: int = 0
) -> PromiseLevels:
    """Return which levels keep a promise on a kind of question.

    Args:
        labels: Labels of one configuration, the oldest first, each question once.
        error_at_most: The promised error [0..1].
        kind: Kind of the question; empty: unknown, so that it may be any.
        unlabelled: Questions that were drawn at random and not labelled [count]: each is an error at every level.

    Returns:
        The levels of three lists. The first takes every vote at its first stop: an answer that led there and lost is
        wrong, also where the winner is wrong too and nothing is known of it. The second takes the votes that went on,
        without those that the first list would have stopped. The third takes the stronger model's answers to the
        questions that neither list would let through, once it is labelled on one of them; where it is not labelled it
        counts as wrong.

    Raises:
        MalformedRequest: For an error that cannot be promised.

    Source:
        Ours (papers.md 5.3). A kind has a list of its own from `KIND_LABELS` labels on; the others share one, and a
        question of unknown kind takes the labels of all. One list for each stage is ours: answers that went on are the
        harder ones, and labels of others say nothing of them.
    """
    own = kinds_with_lists(labels)
    if not kind:
        return _levels(labels, error_at_most, "", unlabelled)
    if kind in own:
        return _levels([one for one in labels if one.kind == kind], error_at_most, kind, unlabelled)
    return shared_levels(labels, error_at_most, unlabelled=unlabelled)


def shared_levels(labels: Sequence[PromiseLabel], error_at_most: float, *, unlabelled: int = 0) -> PromiseLevels:
    """Return which levels keep a promise on all kinds of question without a list of their own; as `promise_levels`.

    Args:
        labels: Labels of questions drawn at random.
        error_at_most: The promised error [0..1].
        unlabelled: Answers that were drawn and not labelled [count, >= 0].
    """
    own = kinds_with_lists(labels)
    return _levels([one for one in labels if one.kind not in own], error_at_most, "", unlabelled)


def kinds_with_lists(labels: Sequence[PromiseLabel]) -> frozenset[str]:
    """Return the kinds with enough labels for a list of their own."""
    counted = Counter(one.kind for one in labels)
    return frozenset(kind for kind, number in counted.items() if kind and number >= KIND_LABELS)


def _levels(mine: Sequence[PromiseLabel], error_at_most: float, kind: str, unlabelled: int) -> PromiseLevels:
    def proved(answers: Sequence[tuple[AgreementLevel, bool]]) -> ProvedLevels:
        return _proved(answers, error_at_most, unlabelled)

    first = proved([(one.agreement.first, one.right and one.agreement.first_stands) for one in mine])
    rest = [one for one in mine if not first.includes(one.agreement.first)]
    longer = [one for one in rest if one.agreement.went_on]
    went_on = proved([(one.agreement.last, one.right) for one in longer])
    asks_on = went_on.last is not None
    if asks_on:
        rest = [one for one in rest if not (one.agreement.went_on and went_on.includes(one.agreement.last))]
    # Where all votes are asked for, what they would have said of a vote that was not complete is not known either.
    escalated = [(ESCALATED_LEVEL, one.stronger is True and (one.agreement.complete or not asks_on)) for one in rest]
    if all(one.stronger is None for one in rest):
        escalated = []
    return PromiseLevels(kind=kind, first=first, went_on=went_on, escalated=proved(escalated))


@value
class PromiseJudgement:
    """A judgement says whether labels prove that an answer of votes keeps a promise.

    Attributes:
        stage: Where the answer comes from.
        level: Its agreement there.
        proved: Whether it is given.
    """

    stage: PromiseStage
    level: AgreementLevel
    proved: bool


def judged(agreement: VoteAgreement, levels: PromiseLevels) -> PromiseJudgement:
    """Return whether labels prove an answer of votes.

    Asking stops first where that level is proved. A vote that went on all the same is judged there too, and its answer
    given only if it is the one that led then.

    Source:
        Ours (papers.md 5.3).
    """
    is_first = not agreement.went_on or levels.first.includes(agreement.first)
    stage, level = (PromiseStage.FIRST, agreement.first) if is_first else (PromiseStage.WENT_ON, agreement.last)
    stands = agreement.first_stands or not is_first
    return PromiseJudgement(stage=stage, level=level, proved=stands and levels.of(stage).includes(level))


def _proved(answers: Sequence[tuple[AgreementLevel, bool]], error_at_most: float, unlabelled: int = 0) -> ProvedLevels:
    """Return the levels that answers prove, which come the oldest first; those after the last look are left out."""
    look = last_look(len(answers))
    seen = answers[look.labels - look.counted : look.labels] if look else ()
    return proved_levels(level_counts(seen), error_at_most, len(answers), unlabelled=unlabelled)


def level_counts(answers: Iterable[tuple[AgreementLevel, bool]]) -> Sequence[LevelCount]:
    """Return how many answers there are at each level, and how many of them are wrong.

    Args:
        answers: Level of each answer, and whether it is right.
    """
    labels: Counter[AgreementLevel] = Counter()
    errors: Counter[AgreementLevel] = Counter()
    for level, right in answers:
        labels[level] += 1
        errors[level] += not right
    return [LevelCount(level=level, labels=number, errors=errors[level]) for level, number in labels.items()]


def kept_share(levels: ProvedLevels) -> float | None:
    """Return the share of the labelled answers of the last look that would be given [0..1]; None without a look."""
    return None if levels.look is None else levels.kept / levels.look.counted


def projected_share(counts: Sequence[LevelCount], error_at_most: float, look: LabelLook) -> float | None:
    """Return the share of answers that would be given at another look if all shares stayed as they are [0..1].

    Args:
        counts: Labelled answers by level.
        error_at_most: The promised error [0..1].
        look: The look, with at most `MOST_LABELS` labels.

    Returns:
        The share; None without a label. Labels of a level are rounded down, and its errors up, so that the projection
        is rather too low.
    """
    total = sum(one.labels for one in counts)
    if not total:
        return None
    scaled = [
        LevelCount(level=one.level, labels=labels, errors=min(labels, ceil(one.errors * look.labels / total - 1e-9)))
        for one in counts
        if (labels := one.labels * look.labels // total)
    ]
    return _tested(scaled, error_at_most, look, look.labels, 0).kept / look.labels
