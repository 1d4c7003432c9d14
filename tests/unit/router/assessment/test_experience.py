from kernel.conversation import Turn, latest_texts


def turns(*contents: str) -> list[Turn]:
    return [Turn(role="user", content=content) for content in contents]


def test_a_single_turn_is_looked_up_once() -> None:
    assert latest_texts(turns(" Where is Oslo? "), longest=100) == ("Where is Oslo?",)


def test_a_conversation_is_looked_up_by_its_last_turn_and_by_its_end() -> None:
    assert latest_texts(turns("Where is Oslo?", "", "And Bergen?"), longest=18) == (
        "And Bergen?",
        "Oslo?\n\nAnd Bergen?",
    )


def test_the_end_of_a_long_turn_is_looked_up() -> None:
    assert latest_texts(turns("a" * 10 + "b" * 10), longest=10) == ("b" * 10,)


def test_a_conversation_without_text_is_not_looked_up() -> None:
    assert latest_texts(turns("", " "), longest=10) == ()
