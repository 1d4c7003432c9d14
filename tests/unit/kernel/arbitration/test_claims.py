"""Claims of texts, and where they come from (papers.md 2.2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.arbitration.claims import (
    MOST_CLAIMS,
    PIECE_CHARACTERS,
    Claim,
    EmbeddedClaims,
    claim_shares,
    claims,
    redundancy,
    traces_by_symbols,
)


def spoken(texts: list[str], vectors: list[list[float]]) -> EmbeddedClaims:
    return EmbeddedClaims(claims=[claims(text)[0] for text in texts], vectors=np.array(vectors).reshape(len(texts), 2))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rains. So it is wet!", ["It rains.", "So it is wet!"]),
        ("- One point\n- Another point", ["One point", "Another point"]),
        ("Step 2: Add 3.5 and 1.5. That is 5.", ["Add 3.5 and 1.5.", "That is 5."]),
        ("See e.g. this one. Done now", ["See e.g. this one.", "Done now"]),
        ("All good.\n**Final Answer:** 42", ["All good."]),
        (
            "Mr. Brown has 12 apples. Dr. Smith gave him 3.5 more.",
            ["Mr. Brown has 12 apples.", "Dr. Smith gave him 3.5 more."],
        ),
        (
            "\u4ed6\u6709\u4e09\u4e2a\u3002\u5979\u7ed9\u4ed6\u4e24\u4e2a\u3002",
            ["\u4ed6\u6709\u4e09\u4e2a\u3002", "\u5979\u7ed9\u4ed6\u4e24\u4e2a\u3002"],
        ),
        ("?!\n\n...", []),
        ("", []),
    ],
)
def test_claims_are_sentences_without_the_final_answer(text: str, sentences: list[str]) -> None:
    assert [claim.text for claim in claims(text)] == sentences


def test_numbers_and_arithmetic_are_read_from_a_claim() -> None:
    [claim] = claims("Then 1,200 x 3 = 3600 and 6 \u00f7 2 is 3.0 as well")

    assert claim.numbers == {"1200", "3", "3600", "6", "2"}
    assert claim.expressions == {"1200*3", "6/2"}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It weighs 12.5kg in all.", {"12.5"}),
        ("We get 1.5x more.", {"1.5"}),
        ("It costs $3.50each.", {"3.5"}),
        ("It is -5 degrees.", {"-5"}),
        ("It is (-5) or \u22122.", {"-5", "-2"}),
        ("So 12-5 or 12 - 5 is 7.", {"12", "5", "7"}),
        ("Nobody came 3rd of the 10,000th.", set()),
        ("Version 1.2.3 of x2.", set()),
        ("It is 1.250,00 euros.", {"1250"}),
        ("It is 2.380,00 euros.", {"2380"}),
    ],
)
def test_a_number_is_read_whole_with_its_sign_and_without_its_unit(text: str, numbers: set[str]) -> None:
    assert claims(text)[0].numbers == numbers


@settings(deadline=None)
@given(st.text(max_size=400))
def test_any_text_has_claims_within_bounds(text: str) -> None:
    assert len(claims(text)) <= MOST_CLAIMS


@pytest.mark.parametrize("between", ["\u00a0", "\u2028", "\u3000", "\ud800", "\0"])
def test_signs_that_the_splitter_cannot_take_leave_the_claims_of_the_text(between: str) -> None:
    found = claims(f"It is e.g.{between}...\u201d{between}A. B.{between} so. It rains")

    assert found[-1].text.endswith("It rains")


def test_a_long_text_without_line_breaks_is_cut_in_pieces() -> None:
    found = claims("\u4ed6\u597d\u3002" * 11_000)

    assert len(found) == MOST_CLAIMS
    assert {claim.text for claim in found} == {"\u4ed6\u597d\u3002"}


def claim(text: str) -> Claim:
    return claims(text)[0]


@pytest.mark.parametrize(
    ("final", "solver", "traces"),
    [
        ("So there are 42 apples.", "6 x 7 = 42 in all.", True),
        ("6 * 7 gives forty-three.", "We have 6 \u00d7 7 = 42.", True),
        ("So there are 43 apples.", "6 x 7 = 42 in all.", False),
        ("It costs 1.250,00 euros.", "It costs 2.380,00 euros.", False),
        ("It costs 1.250,00 euros.", "It costs 1,250.00 euros.", True),
        ("It is 1.250,00 + 3 euros.", "It is 2.380,00 + 3 euros.", False),
        ("It is 0.50 * 4.", "As 0.5 x 4 shows, 2 it is.", True),
        ("There are many apples.", "There are many apples.", False),
        ("It is 6 + 7 = 13.", "We have 6, and 13 of them, less 7.", True),
    ],
)
def test_a_claim_traces_by_symbols_through_its_numbers_or_its_arithmetic(final: str, solver: str, traces: bool) -> None:
    assert traces_by_symbols(claim(final), [claim(solver)]) is traces


def test_redundancy_is_the_mean_over_all_pairs() -> None:
    # Unit vectors at 0, 60 and 90 degrees: cos 60 = 0.5, cos 90 = 0, cos 30 = 0.8660.
    vectors = np.array([[1.0, 0.0], [0.5, 3**0.5 / 2], [0.0, 1.0]])

    assert redundancy(vectors) == pytest.approx((0.5 + 0.0 + 3**0.5 / 2) / 3)
    assert redundancy(vectors[:1]) is None


def test_novelty_and_shares_by_hand() -> None:
    # Solver claim at (1, 0). Final claims: cosine 0.7 exactly, not novel; 0.6, novel; 0.0 but equal numbers, novel and
    # symbolic; 0.8 semantic.
    solvers = spoken(["Six times 7 is 42."], [[1.0, 0.0]])
    final = spoken(
        ["It adds up so.", "It is otherwise.", "42 it is.", "It fits well."],
        [[0.7, 0.51**0.5], [0.6, 0.8], [0.0, 1.0], [0.8, 0.6]],
    )
    critiques = spoken(["Nothing to see.", "Something else."], [[1.0, 0.0], [0.0, 1.0]])

    found = claim_shares(solvers, critiques, final, below=0.7, everything=final.vectors)

    assert found.novelty == 0.5
    assert (found.symbolic, found.semantic, found.untraced) == (0.25, 0.5, 0.25)
    assert found.critique_novelty == 0.5


def test_without_claims_of_solvers_or_of_the_final_stage_nothing_is_traced() -> None:
    none, some = spoken([], []), spoken(["It fits well."], [[0.8, 0.6]])

    for solvers, final in ((none, some), (some, none)):
        found = claim_shares(solvers, none, final, below=0.7, everything=some.vectors)
        assert (found.novelty, found.symbolic, found.semantic, found.untraced) == (None, None, None, None)
        assert found.critique_novelty is None


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(-1, 1))
def test_the_three_shares_sum_to_one(cosines: list[float], below: float) -> None:
    final = EmbeddedClaims(
        claims=[claim("It is 4 of them." if place % 3 else "It fits.") for place in range(len(cosines))],
        vectors=np.array([[cosine, (1 - cosine**2) ** 0.5] for cosine in cosines]),
    )
    solvers = spoken(["It was 4 again."], [[1.0, 0.0]])

    found = claim_shares(solvers, spoken([], []), final, below=below, everything=final.vectors)

    assert found.symbolic is not None
    assert found.semantic is not None
    assert found.untraced is not None
    assert found.symbolic + found.semantic + found.untraced == pytest.approx(1.0)


def test_a_long_line_is_cut_between_words() -> None:
    line = "x" * (PIECE_CHARACTERS - 4) + " 123456 boxes. Then 5."

    assert {number for claim in claims(line) for number in claim.numbers} == {"123456", "5"}
