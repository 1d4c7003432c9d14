"""Which answers need no reading."""

from kernel.answers import AnswerType
from kernel.arbitration.tallies import is_already_canonical, simple_canonical_forms


def test_what_takes_more_than_reading_is_left_to_the_kernel() -> None:
    assert simple_canonical_forms(["2", r"\sqrt{4}"], AnswerType.NUMBER) is None
    assert simple_canonical_forms(["paris"], AnswerType.TEXT) is None


def test_digits_of_other_scripts_are_not_plain() -> None:
    assert not is_already_canonical("1\u0663", AnswerType.NUMBER)
