from services.router.service.assessment.measures import matched_texts


def test_a_single_turn_is_looked_up_once() -> None:
    assert matched_texts([" Where is Oslo? "], most=100) == ("Where is Oslo?",)


def test_a_conversation_is_looked_up_by_its_last_turn_and_by_its_end() -> None:
    assert matched_texts(["Where is Oslo?", "", "And Bergen?"], most=18) == ("And Bergen?", "Oslo?\n\nAnd Bergen?")


def test_the_end_of_a_long_turn_is_looked_up() -> None:
    assert matched_texts(["a" * 10 + "b" * 10], most=10) == ("b" * 10,)


def test_nothing_said_is_nothing_to_look_up() -> None:
    assert matched_texts(["", " "], most=10) == ()
