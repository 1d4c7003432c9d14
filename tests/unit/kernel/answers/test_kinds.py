"""Every answer type has its rules and its canonical form."""

import pytest

from kernel.answers import AnswerType, canonical, rules_of

ANSWERS = {
    AnswerType.BOOLEAN: "Yes.",
    AnswerType.CHOICE: "(b)",
    AnswerType.NUMBER: "12.0",
    AnswerType.TEXT: "The Nile",
    AnswerType.CODE: "print( 1 )",
}


@pytest.mark.parametrize("answer_type", AnswerType)
def test_every_type_has_rules_and_a_canonical_form(answer_type: AnswerType) -> None:
    form = canonical(ANSWERS[answer_type], answer_type)

    assert rules_of(answer_type).label
    assert form is not None
    assert canonical(form, answer_type) == form


@pytest.mark.parametrize("answer_type", AnswerType)
def test_a_simple_form_is_its_own_canonical_form(answer_type: AnswerType) -> None:
    pattern = rules_of(answer_type).simple_form

    for answer in ("true", "false", "A", "Z", "0", "-7", "123456789012345"):
        if pattern is not None and pattern.fullmatch(answer):
            assert canonical(answer, answer_type) == answer
