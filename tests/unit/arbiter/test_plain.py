"""The short way round reading spellings gives what the kernel gives."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.answers import IN_THIS_PROCESS, AnswerType, cluster
from services.arbiter.service.samples import AnswerForm, counted

NUMBERS = st.one_of(
    st.integers(-20, 20).map(str),
    st.sampled_from(["12.0", "$12", "1,200", "1200", "012", "-0", "1/2", "0.5", "none", "", " 7 ", r"\sqrt{4}", "50%"]),
)
TRUTHS = st.sampled_from(["true", "false", "Yes", "no.", "maybe", "TRUE"])
LETTERS = st.sampled_from(["A", "B", "(b)", "option A", "?", "e"])


def by_kernel(answers: list[str], kind: AnswerType) -> dict[str, int]:
    return {one.canonical: one.count for one in cluster(answers, kind)}


def by_us(answers: list[str], kind: AnswerType) -> dict[str, int]:
    return dict(counted([list(answers)], [], AnswerForm(answer_type=kind), mathematics=IN_THIS_PROCESS).tally.solver)


@settings(max_examples=25, deadline=None)
@given(st.lists(NUMBERS, max_size=12))
def test_numbers_are_counted_as_the_kernel_counts_them(answers: list[str]) -> None:
    assert by_us(answers, AnswerType.NUMBER) == by_kernel(answers, AnswerType.NUMBER)


@given(st.lists(TRUTHS, max_size=12), st.lists(LETTERS, max_size=12))
def test_so_are_truths_and_letters(truths: list[str], letters: list[str]) -> None:
    assert by_us(truths, AnswerType.BOOLEAN) == by_kernel(truths, AnswerType.BOOLEAN)
    assert by_us(letters, AnswerType.CHOICE) == by_kernel(letters, AnswerType.CHOICE)


def test_solvers_and_arbiter_share_their_canonical_forms() -> None:
    found = counted(
        [["$12", "x"], ["12.0"]], ["12", None], AnswerForm(answer_type=AnswerType.NUMBER), mathematics=IN_THIS_PROCESS
    )

    assert found.solvers == [["12 USD", None], ["12 USD"]]
    assert found.arbiter == ["12 USD", None]
    assert (found.tally.solver_invalid, found.tally.arbiter_invalid) == (1, 1)
    # Each spelling is there once; the first in code point order stands for them.
    assert found.spelled == {"12 USD": min(Counter(["$12", "12.0", "12"]))}


def test_digits_of_other_scripts_are_read() -> None:
    assert by_us(["1\u0663", "13"], AnswerType.NUMBER) == {"13": 2}
