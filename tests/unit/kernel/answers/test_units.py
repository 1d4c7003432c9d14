"""Units of numbers: read where they are surely units, converted exactly, and never assumed silently."""

import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pint import UnitRegistry

from kernel.answers import AnswerType, canonical, cluster, cluster_forms, compared, is_right, same_answer
from kernel.answers.equality import number_form
from kernel.answers.units import (
    _COMPOUNDS,
    _MEASURE_NAMES,
    _UNITS,
    CountedNumber,
    Quantity,
    _scales,
    homes,
    quantity,
    same_quantity,
    unit_name,
)
from kernel.answers.untyped import untyped_answer, untyped_answers
from kernel.arbitration.tallies import simple_canonical_forms
from kernel.confidence.voting import Ballot, count_votes
from kernel.votes.votes import Vote, VoteMode, VoteSource, vote_groups

NUMBER = AnswerType.NUMBER
SOURCE = VoteSource(model="m", mode=VoteMode.REASONED)
LENGTHS, OTHERS = ("m", "km", "mi", "ft", "cm"), ("s", "h", "kg", "USD", "EUR", "°C")
QUANTITIES = st.tuples(st.integers(-50, 50), st.sampled_from(["", *LENGTHS, *OTHERS])).map(
    lambda one: f"{one[0]} {one[1]}".strip()
)


def groups(*answers: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the groups of votes, each with its name."""
    votes = [Vote(source=SOURCE, answer=answer) for answer in answers]
    return [(one.canonical, one.votes) for one in vote_groups(votes, NUMBER)]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("10 km", "10,000 m"),
        ("36 km/h", "10 m/s"),
        ("36 kilometers per hour", "10 metres per second"),
        ("60 mph", "60 miles per hour"),
        ("1 decade", "10 years"),
        ("1 acre", "43,560 sq ft"),
        ("1 mile", "5280 feet"),  # 1760 yd of 3 ft
        ("1 in", "2.54 cm"),
        ("98.6 °F", "37 degrees Celsius"),  # (98.6 - 32) / 1.8
        ("1 kWh", "3,600,000 J"),
        ("2 square feet", "288 in^2"),  # 2 * 144
        ("1 m³", "1000 litres"),
        ("1.5 hours", "90 min"),
        ("2 weeks", "14 days"),
        ("1/3 yd", "1 foot"),
        ("$5", "5 dollars"),
        ("5 USD", "$5.00"),
        ("$5 per hour", "5 dollars/hour"),
        ("3 million euros", "€3M"),
        ("10 pounds", "10 lbs"),
        ("10 pounds", "£10"),
        ("50%", "50 percent"),
    ],
)
def test_equal_quantities_are_one_answer_in_whatever_units(a: str, b: str) -> None:
    assert same_answer(a, b, NUMBER)
    assert is_right(a, b, NUMBER) is True
    assert len(groups(a, b)) == len(cluster([a, b], NUMBER)) == 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("10 km", "10 miles"),
        ("5 euros", "5 dollars"),
        ("$5", "€5"),
        ("5 Canadian dollars", "$5"),
        ("50 cents", "50 dollars"),
        ("5 kg", "5 hours"),
        ("5 m", "5 m^2"),
        ("20 °C", "20 °F"),
        ("$5 per hour", "$5 per day"),
        ("$5 per hour", "$5"),
        ("10 pounds", "10 kg"),
        ("10 pounds", "$10"),
        ("1 km", "999 m"),
    ],
)
def test_other_dimensions_currencies_and_sizes_are_never_one_answer(a: str, b: str) -> None:
    assert not same_answer(a, b, NUMBER)
    assert is_right(a, b, NUMBER) is False
    assert len(groups(a, b)) == len(cluster([a, b], NUMBER)) == 2


@pytest.mark.parametrize(
    "text",
    ["5 in total", "5 apples", "5 in a row", "5 m or so", "5 men", "5 each", "5%", "5", "x = 5"],
)
def test_words_that_only_look_like_units_are_none(text: str) -> None:
    assert quantity(text) is None


@pytest.mark.parametrize("text", ["3 a", "2 b", "2ab", "3 m n"])
def test_letters_are_no_units(text: str) -> None:
    assert quantity(text) is None


def test_a_variable_in_a_text_stays_mathematics() -> None:
    assert same_answer("2m", "m2", AnswerType.TEXT) is same_answer("2x", "x2", AnswerType.TEXT)
    assert not same_answer("2m", "2", AnswerType.TEXT)


def test_an_answer_without_a_unit_equals_any_unit_of_its_number_and_says_so() -> None:
    assert compared("10", "10 km", NUMBER).unit_assumed == "km"
    assert compared("10 miles", "10", NUMBER).unit_assumed == "mi"
    assert compared("10,000 m", "10 km", NUMBER).unit_assumed == ""
    assert compared("10", "10 km", NUMBER, aliases=["10"]).unit_assumed == ""  # one of them needs no assumption
    assert is_right("10", "10,000 m", NUMBER) is False


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("16.1 km", "10 miles", True),  # 16.09344
        ("16.0 km", "10 miles", False),
        ("16 km", "10 miles", False),
        ("3.11 miles", "5 km", True),  # 3.1069
        ("33.3 km", "100/3 km", True),
        ("0.51 km", "0.5 km", False),
        ("33.3 s", "100/3 km", False),
    ],
)
def test_a_converted_number_may_be_rounded(answer: str, reference: str, right: bool) -> None:
    assert is_right(answer, reference, NUMBER) is right


def test_a_vote_without_a_unit_joins_the_group_of_its_number_with_most_votes() -> None:
    assert groups("10", "10 miles", "10 km", "10,000 m") == [("10 km", (0, 2, 3)), ("10 mi", (1,))]
    assert groups("10", "10 miles", "10 km") == [("10 mi", (0, 1)), ("10 km", (2,))]  # the first of two equal ones
    assert groups("5 euros", "$5", "5") == [("5 EUR", (0, 2)), ("5 USD", (1,))]


def test_what_has_no_unit_merges_no_groups() -> None:
    # 10 and 10000 are two numbers, although each could mean 10 km.
    assert groups("10 km", "10,000 m", "10000", "10000", "10") == [("10 km", (0, 1, 2, 3)), ("10", (4,))]


def test_a_unit_of_several_meanings_joins_one_of_them() -> None:
    assert groups("10 pounds", "£10", "10 lb", "10 lb") == [("10 lb", (0, 2, 3)), ("10 GBP", (1,))]
    assert groups("10 pounds", "10") == [("10 pound", (0, 1))]


def test_a_group_names_the_votes_without_a_unit() -> None:
    votes = [Vote(source=SOURCE, answer=answer) for answer in ("10", "10 km", "7", "7")]

    assert [(one.canonical, one.without_unit) for one in vote_groups(votes, NUMBER)] == [("10 km", (0,)), ("7", ())]


def test_clusters_name_the_spellings_without_a_unit_and_are_represented_by_one_with() -> None:
    (first, second) = cluster(["10", "10", "10 km", "10 miles", "10,000 m"], NUMBER)

    assert (first.representative, first.canonical, first.count) == ("10 km", "10 km", 4)
    assert first.without_unit == ("10",)
    assert (second.spellings, second.without_unit) == (("10 miles",), ())
    forms = ["10", "10 km", "10 mi", "10000 m"]
    assert [one.spellings for one in cluster_forms(forms, NUMBER)] == [("10", "10 km", "10000 m"), ("10 mi",)]


def test_a_kilometre_an_hour_is_five_eighteenths_of_a_metre_a_second() -> None:
    slow = Quantity(number=Fraction(1), unit="km/h")

    assert same_quantity(slow, Quantity(number=Fraction(5, 18), unit="m/s"))
    assert not same_quantity(slow, Quantity(number=Fraction(1), unit="km"))


def test_an_expression_without_a_unit_equals_its_number_of_any_unit() -> None:
    assert same_answer(r"\sqrt{25}", "5 km", NUMBER)
    assert groups("5 km", r"\sqrt{25}", "5 s", "5 km") == [("5 km", (0, 1, 3)), ("5 s", (2,))]


def test_agents_that_state_no_unit_are_named_with_the_one_they_are_taken_to_mean() -> None:
    given = ("10", "10 km", "10 s")
    ballots = [Ballot(agent=name, answer=answer, weight=0.5) for name, answer in zip("abc", given, strict=True)]

    count = count_votes(ballots, NUMBER)

    assert (count.answer, sorted(count.winners), dict(count.units_assumed)) == ("10 km", ["a", "b"], {"a": "km"})


def test_counts_without_reading_are_only_made_where_no_unit_is() -> None:
    assert simple_canonical_forms(["12", "12 km"], NUMBER) is None
    assert simple_canonical_forms(["12", "12 apples"], NUMBER) == {"12": "12", "12 apples": "12"}


def test_answers_of_unknown_type_are_told_apart_by_their_units() -> None:
    texts = ["It is 10 km.", "10", "10 miles", "10,000 m", "The Nile"]

    found = [one.identity for one in untyped_answers(texts) if one]

    assert found[0] == found[1] == found[3]
    assert len(set(found)) == 3
    assert untyped_answer("10 km") is not None


FORMS = st.sampled_from(["km", "m^2", "km/h", "USD/h", "°C", "pound", "oz", "kW*h", "ft^3", "m/s^2", "JPY", "degree"])


@given(number=st.fractions(max_denominator=99), unit=FORMS)
def test_a_canonical_form_is_read_as_itself(number: Fraction, unit: str) -> None:
    form = canonical(f"{number} {unit}", NUMBER)

    assert form is not None
    assert canonical(form, NUMBER) == form
    assert quantity(form) is not None


@settings(deadline=None)
@given(a=QUANTITIES, b=QUANTITIES)
def test_equality_is_symmetric_and_exact_for_numbers_alone(a: str, b: str) -> None:
    assert same_answer(a, b, NUMBER) is same_answer(b, a, NUMBER)
    if " " not in a + b:
        assert same_answer(a, b, NUMBER) is (a == b)


@settings(deadline=None, max_examples=200)
@given(answers=st.lists(QUANTITIES, max_size=9))
def test_no_group_holds_two_that_differ(answers: list[str]) -> None:
    for _, places in groups(*answers):
        with_unit = [answers[at] for at in places if " " in answers[at]]
        without = {number_form(answers[at]) for at in places if " " not in answers[at]}
        assert all(same_answer(with_unit[0], other, NUMBER) for other in with_unit)
        assert len(without) <= 1
        assert not with_unit or all(any(same_answer(one, other, NUMBER) for other in with_unit) for one in without)


@settings(deadline=None, max_examples=100)
@given(data=st.data(), answers=st.lists(QUANTITIES, max_size=9))
def test_clusters_with_units_do_not_depend_on_the_order(data: st.DataObject, answers: list[str]) -> None:
    assert cluster(answers, NUMBER) == cluster(data.draw(st.permutations(answers)), NUMBER)


@given(counts=st.lists(st.tuples(st.sampled_from("123"), st.sampled_from(["", " km", " s"]), st.integers(1, 3))))
def test_every_answer_has_a_home_that_is_its_own(counts: Sequence[tuple[str, str, int]]) -> None:
    found = homes([CountedNumber(number=number, form=number + unit, count=count) for number, unit, count in counts])

    assert all(found[home] == home <= place for place, home in enumerate(found))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "hostile",
    [
        "5 " + "km/" * 330,
        "5 " + "square " * 140,
        "5 km" + "^3" * 400,
        "5 " + "per " * 240 + "h",
        "5 " + "m*" * 490 + "m",
        "9" * 390 + " km",
        "1/" + "9" * 390 + " km",
        "5 " + "s" * 990,
        "5 kilo" + "ies" * 300,
        "10^400 light years",
        "5 \u0301" * 300 + "km",
        "5 " + "degrees celsius " * 60,
    ],
)
def test_hostile_texts_are_read_in_bounded_time(hostile: str) -> None:
    began = time.perf_counter()

    for other in (hostile, "5 km", "5", "5 miles"):
        same_answer(hostile, other, NUMBER)
        is_right(hostile, other, NUMBER)

    assert time.perf_counter() - began < 2


def test_the_number_of_distinct_units_is_bounded_by_the_table() -> None:
    assert {unit_name("", f"unit{at}") for at in range(100)} == {""}


# What `pint` calls these units; of some there are several in ours.
PINT = {
    "lightyear": (1, "light_year"),
    "nmi": (1, "nautical_mile"),
    "tonne": (1, "metric_ton"),
    "shortton": (1, "short_ton"),
    "floz": (1, "fluid_ounce"),
    "in": (1, "inch"),
    "min": (1, "minute"),
    "arcdegree": (1, "degree"),
    "angle": (1, "degree"),
    "°C": (1, "degree_Celsius"),
    "°F": (1, "degree_Fahrenheit"),
    "smallcalorie": (1, "calorie"),
    "KB": (1, "kilobyte"),
    "decade": (10, "year"),  # theirs is a logarithm
    "acre": (43_560, "foot**2"),  # theirs is the surveyors'
}
REGISTRY: Any = UnitRegistry(non_int_type=Fraction)


@pytest.mark.parametrize("unit", [*_MEASURE_NAMES, *_COMPOUNDS.values()])
def test_sizes_of_units_are_those_of_pint(unit: str) -> None:
    times, theirs = PINT.get(unit, (1, unit))
    base = _MEASURE_NAMES[unit][0] if unit in _MEASURE_NAMES else {"mi/h": "m/s", "km/h": "m/s", "kW*h": "joule"}[unit]
    base = PINT.get(base, (1, base))[1]
    none, one = (REGISTRY.Quantity(Fraction(many), theirs).to(base).magnitude for many in (0, times))

    [scale] = _scales(unit)

    assert (scale.zero, scale.factor) == (none, one - none)


@pytest.mark.parametrize("name", sorted({*_UNITS, *_COMPOUNDS, "cent", "cents per kWh", "degree"}))
def test_every_name_of_a_unit_can_be_compared_with_another(name: str) -> None:
    for other in ("5 km", "5 $", "5 °C", "1 decade", "5 pounds", "5 cents", "5"):
        assert isinstance(same_answer(f"5 {name}", other, NUMBER), bool)
        assert cluster([f"5 {name}", other], NUMBER)


def test_a_currency_that_is_named_twice_is_one() -> None:
    for twice, once in (("$50 USD", "$50"), ("€5 euros", "€5"), ("$25 million dollars", "$25M"), ("£5 pounds", "£5")):
        assert compared(twice, once, NUMBER).right is True
        assert canonical(twice, NUMBER) == canonical(once, NUMBER)
    assert canonical("$5 CAD", NUMBER) == "5 CAD"
    assert canonical("$5 dollars per hour", NUMBER) == canonical("$5/h", NUMBER) == "5 USD/h"
    assert canonical("€0.9 per dollar", NUMBER) == "0.9 EUR/USD"


@pytest.mark.parametrize(
    ("cents", "whole"),
    [
        ("25 cents", "$0.25"),
        ("25 cents", "€0.25"),
        ("50 pence", "£0.50"),
        ("25¢", "$0.25"),
        ("25 ¢", "0.25 dollars"),
        ("2.5¢", "$0.025"),
    ],
)
def test_hundredths_of_a_currency_are_converted(cents: str, whole: str) -> None:
    assert same_answer(cents, whole, NUMBER)
    assert len(groups(cents, whole)) == len(cluster([cents, whole], NUMBER)) == 1


def test_cents_join_one_currency() -> None:
    assert same_answer("12 cents per kWh", "$0.12 per kWh", NUMBER)
    assert not same_answer("25 cents", "25 yen", NUMBER)
    assert groups("$0.25", "€0.25", "25 cents") == [("0.25 USD", (0, 2)), ("0.25 EUR", (1,))]


@pytest.mark.parametrize(("morning", "evening"), [("5 am", "5 pm"), ("5 a.m.", "5 p.m."), ("5AM", "5 PM")])
def test_morning_is_not_evening(morning: str, evening: str) -> None:
    assert not same_answer(morning, evening, NUMBER)
    assert same_answer(morning, "5 a.m.", NUMBER)
    assert compared(evening, "5", NUMBER).unit_assumed == "pm"
    assert not same_answer(morning, "5 hours", NUMBER)


@pytest.mark.timeout(60)
def test_many_answers_with_units_are_clustered_in_time_that_grows_with_their_number() -> None:
    def seconds(many: int) -> float:
        counted = [
            CountedNumber(number=str(at), form=f"{at} {unit}".strip())
            for at in range(many)
            for unit in ("pounds", "kg", "km", "")
        ]
        began = time.process_time()
        homes(counted)
        return time.process_time() - began

    seconds(10)
    assert seconds(1_600) < 8 * seconds(400)  # four times as many; pair by pair it would be sixteen
