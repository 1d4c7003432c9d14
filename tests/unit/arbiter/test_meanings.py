"""Long free texts are put together by a model's judgement, inside the kernel's guard."""

from collections.abc import Sequence

from kernel.answers import IN_THIS_PROCESS, AnswerType
from kernel.envelope import BudgetExhausted
from services.arbiter.service.meaning_judge import MOST_ROUNDS, MeaningJudge
from services.arbiter.service.samples import AnswerForm, counted

TREATY = "The treaty put an end to the long war between both of the kingdoms for good."
PEACE = "With the treaty the long war between both of the kingdoms was over for good."
TRADE = "The treaty opened the harbours of both of the kingdoms to foreign merchant ships."
NAMED = "The treaty put an end to the long war between both of the kingdoms, said Ann."
DENIED = "The treaty did not put an end to the long war between both of the kingdoms."


class Model:
    """Says which texts mean the same; remembers what it was asked."""

    def __init__(self, *same: Sequence[str]) -> None:
        self._same = [set(group) for group in same]
        self.asked: list[tuple[list[str], list[str]]] = []

    async def __call__(self, references: Sequence[str], answers: Sequence[str]) -> Sequence[int]:
        self.asked.append((list(references), list(answers)))
        return [
            next((place for place, known in enumerate(references, start=1) if self._mean_same(known, answer)), 0)
            for answer in answers
        ]

    def _mean_same(self, a: str, b: str) -> bool:
        return any(a in group and b in group for group in self._same)


def merged(meanings: MeaningJudge, answers: Sequence[str]) -> list[int]:
    counts = counted(
        [list(answers)], [], AnswerForm(answer_type=AnswerType.TEXT), meanings, mathematics=IN_THIS_PROCESS
    ).tally.solver
    return sorted(counts.values(), reverse=True)


async def test_texts_that_say_the_same_are_counted_as_one() -> None:
    meanings = MeaningJudge(Model([TREATY, PEACE]))

    assert await meanings.judge([TREATY, PEACE, PEACE, TRADE]) == ""

    assert merged(meanings, [TREATY, PEACE, PEACE, TRADE]) == [3, 1]


async def test_the_guard_is_never_asked_away() -> None:
    model = Model([TREATY, NAMED, DENIED])
    meanings = MeaningJudge(model)

    await meanings.judge([TREATY, NAMED, DENIED])

    assert merged(meanings, [TREATY, NAMED, DENIED]) == [1, 1, 1]
    assert model.asked == []


async def test_short_answers_are_never_asked_about() -> None:
    model = Model()

    await MeaningJudge(model).judge(["Paris", "paris", "Rome", "In Rome"])

    assert model.asked == []


async def test_one_question_compares_many_with_the_most_frequent() -> None:
    model = Model([TREATY, PEACE])

    await MeaningJudge(model).judge([PEACE, PEACE, TREATY, TRADE])

    assert model.asked[0] == ([PEACE], [TRADE, TREATY]) or model.asked[0] == ([PEACE], [TREATY, TRADE])
    assert len(model.asked) == 1


async def test_what_was_judged_is_not_asked_again() -> None:
    model = Model([TREATY, PEACE])
    meanings = MeaningJudge(model)
    await meanings.judge([TREATY, PEACE])
    asked = len(model.asked)

    await meanings.judge([TREATY, PEACE, TREATY])

    assert len(model.asked) == asked


async def test_new_texts_are_compared_with_all_groups_at_once() -> None:
    model = Model([TREATY, PEACE])
    meanings = MeaningJudge(model)
    await meanings.judge([TREATY, TRADE])
    model.asked.clear()

    await meanings.judge([TREATY, TRADE, PEACE])

    assert [sorted(references) for references, _ in model.asked] == [sorted([TREATY, TRADE])]
    assert merged(meanings, [TREATY, TRADE, PEACE]) == [2, 1]


async def test_texts_that_are_all_different_cost_a_bounded_number_of_questions() -> None:
    model = Model()
    texts = [f"{TRADE[:-1]} in those {'very ' * place}old days." for place in range(1, 20)]

    await MeaningJudge(model).judge(texts)

    assert 0 < len(model.asked) <= 2 * MOST_ROUNDS


async def test_texts_stay_apart_with_a_reason_when_the_model_fails() -> None:
    async def refuse(_: Sequence[str], __: Sequence[str]) -> Sequence[int]:
        raise BudgetExhausted("nothing left")

    meanings = MeaningJudge(refuse)

    failure = await meanings.judge([TREATY, PEACE])

    assert failure.startswith("BUDGET_EXHAUSTED: answers were not compared by meaning")
    assert merged(meanings, [TREATY, PEACE]) == [1, 1]
