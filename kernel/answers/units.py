"""Units distinguish numbers: 10 km is 10,000 m and not 10 miles, and 5 euros are not 5 dollars (papers.md 2.3).

A fixed table has the names that count as units, since a word after a number rarely is one: "5 in total" has none.
`pint` converts; it is loaded where two different units of measurement meet, and not before. Currencies are never
converted.

Source: ours (papers.md 2.3); which names are read is ours.
"""

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

from kernel.answers.numbers import decimal_places, has_finite_decimal, number_in, spelled
from kernel.values import value

# Each unit with its name in `pint` and further names in the singular; names of three letters are read in any case.
_MEASURES = """
mm millimeter | cm centimeter | m meter | km kilometer | in inch | ft foot feet | yd yard yds | mi mile |
nmi nautical_mile nauticalmile | lightyear light_year | mg milligram | g gram | kg kilogram kilo kgs | lb pound lbs |
ounce ounce | tonne metric_ton metricton | shortton short_ton | s second sec secs | min minute mins |
h hour hr hrs | day day | week week | month month | year year yrs | decade decade | century century |
millisecond millisecond | mL milliliter ml | L liter l | cup cup | tbsp tablespoon | tsp teaspoon | quart quart |
gallon gallon gal | floz fluid_ounce fluidounce | acre acre | hectare hectare | kelvin kelvin | angle degree |
°C degree_Celsius C celsius centigrade degreecelsius degreescelsius degreecentigrade degreescentigrade |
°F degree_Fahrenheit F fahrenheit degreefahrenheit degreesfahrenheit |
byte byte | KB kilobyte | MB megabyte | GB gigabyte | TB terabyte | J joule | smallcalorie calorie | kcal kilocalorie |
W watt | kW kilowatt | horsepower horsepower | pascal pascal | kPa kilopascal | psi psi | N newton | V volt |
A ampere amp | ohm ohm | Hz hertz | kHz kilohertz | MHz megahertz | GHz gigahertz
"""
_CURRENCIES = """
USD $ dollar usdollar | EUR € euro | GBP £ poundsterling poundssterling britishpound | JPY yen |
CNY yuan renminbi rmb chineseyuan | INR ₹ rupee indianrupee | KRW ₩ | CAD canadiandollar | AUD australiandollar |
CHF franc swissfranc | MXN peso mexicanpeso | RUB ruble rouble | SEK krona kronor | NOK | DKK | ZAR rand | BRL |
cent | pence
"""
# Names of several units: such a unit is equal to each of them.
_SEVERAL = {
    "pound": ("lb", "GBP"),
    "oz": ("ounce", "floz"),
    "ton": ("shortton", "tonne"),
    "degree": ("°C", "°F", "angle"),
    "calorie": ("smallcalorie", "kcal"),
    "¥": ("JPY", "CNY"),
}
_SEVERAL_NAMES = {"ounce": "oz", "°": "degree"}
_COMPOUNDS = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "kwh": "kW*h", "kilowatthour": "kW*h"}
# Temperatures have a zero of their own, and stand alone.
_TEMPERATURES = frozenset(["°C", "°F"])
_MOST_TERMS = 3

_BRITISH = (("metre", "meter"), ("litre", "liter"), ("gramme", "gram"))
_POWER = re.compile(r"\^?\{?(-?[1-3])\}?$")
_RAISED = re.compile(r"(?:(square|sq)|(?:cubic|cu))\b\.?[\s-]*", re.IGNORECASE)
_PER = re.compile(r"\s*/\s*|(?:^|\s+)per\s+", re.IGNORECASE)

Term = tuple[str, int]
Identity = tuple[str, Fraction]


@value
class Quantity:
    """A quantity is a number with a unit.

    Attributes:
        number: The number.
        unit: The unit, as `unit_name` spells it.
    """

    number: Fraction
    unit: str

    @property
    def form(self) -> str:
        """Return its canonical form."""
        return f"{spelled(self.number)} {self.unit}"


@value
class CountedNumber:
    """Equal answers to one question are counted together.

    Attributes:
        number: Key of the number; answers with equal numbers have equal keys, whatever their units.
        form: Canonical form, with its unit.
        count: How many there are [count, >= 1].
    """

    number: str
    form: str
    count: int = 1


@value
class _Scale:
    """The scale of a unit: `dimension` is what it measures, in which x of them are `factor` * x + `zero`."""

    dimension: str
    factor: Fraction
    zero: Fraction


def _table(text: str) -> dict[str, tuple[str, ...]]:
    rows = (row.split() for row in text.split("|"))
    return {row[0]: tuple(row[1:]) for row in rows}


_MEASURE_NAMES, _CURRENCY_NAMES = _table(_MEASURES), _table(_CURRENCIES)
_UNITS = {
    name if len(name) < 3 or not name.islower() else name.casefold(): unit
    for table in (_MEASURE_NAMES, _CURRENCY_NAMES)
    for unit, names in table.items()
    for name in (unit, *names, *([unit.casefold()] if table is _CURRENCY_NAMES else ()))
} | {**{name: name for name in _SEVERAL}, **_SEVERAL_NAMES}


def unit_name(currency: str, beside: str) -> str:
    """Return the unit that stands beside a number, spelled in one way; empty where what stands there is none.

    Args:
        currency: The currency sign before the number; empty without one.
        beside: The words after it.

    Returns:
        The unit: that of the words where all of them are one; else that of the sign.

    Example:
        >>> unit_name("", "kilometers per hour"), unit_name("", "km/h"), unit_name("", "sq. ft"), unit_name("$", "")
        ('km/h', 'km/h', 'ft^2', 'USD')
        >>> unit_name("", "in total"), unit_name("", "apples"), unit_name("", "a"), unit_name("$", "tip")
        ('', '', '', 'USD')
    """
    sign = _UNITS.get(currency, "")
    terms = _terms(beside.strip(), sign) if beside.strip() else None
    return sign if terms is None else terms


@lru_cache(maxsize=4_096)
def _terms(beside: str, sign: str) -> str | None:
    first, *below = _PER.split(beside)
    powers = dict[str, int]({sign: 1} if sign else {})
    parts = [(phrase, 1) for phrase in first.split("*") if first] + [(phrase, -1) for phrase in below]
    for phrase, side in parts:
        found = _factor(phrase.strip())
        if found is None:
            return None
        for unit, power in found:
            powers[unit] = powers.get(unit, 0) + side * power
    return _spelled(powers)


def _spelled(powers: dict[str, int]) -> str | None:
    """Return units with their powers as one text; None for what is no unit that can be read again."""
    above = [_raised(unit, power) for unit, power in sorted(powers.items()) if power > 0]
    below = [_raised(unit, -power) for unit, power in sorted(powers.items()) if power < 0]
    alone = len(above) + len(below) == 1 and max(powers.values()) == 1
    if not above or len(above) + len(below) > _MOST_TERMS or max(map(abs, powers.values())) > 3:
        return None
    if not alone and (_TEMPERATURES.union(_SEVERAL) & powers.keys()):
        return None
    return "/".join(["*".join(above), *below])


def _raised(unit: str, power: int) -> str:
    return unit if power == 1 else f"{unit}^{power}"


def _factor(phrase: str) -> Sequence[Term] | None:
    power = _POWER.search(phrase)
    raised = _RAISED.match(phrase)
    if power is not None:
        phrase = phrase[: power.start()]
    elif raised is not None and raised.end() < len(phrase):
        phrase = phrase[raised.end() :]
    times = int(power[1]) if power else (2 if raised[1] else 3) if raised and phrase else 1
    known = _known(phrase.strip().rstrip("."))
    return None if known is None else [(unit, times * one) for unit, one in known]


def _known(phrase: str) -> Sequence[Term] | None:
    """Return the unit of a name, a symbol, or a plural."""
    if phrase in _UNITS:
        return [(_UNITS[phrase], 1)]
    name = re.sub(r"[\s.-]+", "", phrase).casefold()
    if len(name) < 3:
        return None
    for british, plain in _BRITISH:
        name = name.replace(british, plain)
    singulars = (name, name.removesuffix("s"), name.removesuffix("es"), re.sub("ies$", "y", name))
    compound = next((_COMPOUNDS[one] for one in singulars if one in _COMPOUNDS), None)
    if compound is not None:
        above, _, below = compound.partition("/")
        return [*((one, 1) for one in above.split("*")), *((one, -1) for one in below.split() if one)]
    found = next((_UNITS[one] for one in singulars if len(one) > 2 and one in _UNITS), None)
    return None if found is None else [(found, 1)]


def quantity(text: str) -> Quantity | None:
    """Return the number and unit that `text` as a whole is; None without a unit.

    Example:
        >>> quantity("10,000 m"), quantity("5 in total"), quantity("$5").unit
        (Quantity(number=Fraction(10000, 1), unit='m'), None, 'USD')
    """
    found = number_in(text)
    unit = unit_name(found.currency, found.beside) if found else ""
    return Quantity(number=found.number, unit=unit) if found and unit else None


def with_units(forms: Iterable[str]) -> list[str]:
    """Return those of these canonical numbers that state a unit; of one meaning, where some do.

    Example:
        >>> with_units(["10", "10 pound", "10 lb"]), with_units(["10", "10 pound"]), with_units(["10"])
        (['10 lb'], ['10 pound'], [])
    """
    found = [(form, one.unit) for form in forms if (one := quantity(form)) is not None]
    return [form for form, unit in found if unit not in _SEVERAL] or [form for form, _ in found]


def same_quantity(a: Quantity, b: Quantity) -> bool:
    """Return whether two quantities are equal after conversion; those of two dimensions or currencies never are.

    Example:
        >>> same_quantity(Quantity(number=Fraction(36), unit="km/h"), Quantity(number=Fraction(10), unit="m/s"))
        True
        >>> same_quantity(Quantity(number=Fraction(5), unit="EUR"), Quantity(number=Fraction(5), unit="USD"))
        False
    """
    if a.unit == b.unit:
        return a.number == b.number
    return not set(_identities(a)).isdisjoint(_identities(b))


def rounds_quantity(shown: str, exact: str) -> bool:
    """Return whether a quantity with three or more digits is the other one, converted to its unit and rounded.

    In one unit only what has no finite decimal is rounded.

    Example:
        >>> rounds_quantity("16.1 km", "10 miles"), rounds_quantity("16 km", "10 miles")
        (True, False)
    """
    found, of, to = number_in(shown), quantity(exact), quantity(shown)
    places = decimal_places(found.shown) if found else None
    if found is None or of is None or to is None or places is None:
        return False
    if of.unit == to.unit and has_finite_decimal(of.number):
        return False
    values = (
        (one.factor * of.number + one.zero - other.zero) / other.factor
        for one, other in product(_scales(of.unit), _scales(to.unit))
        if one.dimension == other.dimension
    )
    return any(abs(found.number - one) <= Fraction(1, 2 * 10**places) for one in values)


def assumed_unit(a: str, b: str) -> str:
    """Return the unit that only one of two equal answers states, and that the other is taken to mean; else empty.

    Example:
        >>> assumed_unit("10", "10 km"), assumed_unit("10 km", "10,000 m")
        ('km', '')
    """
    units = [one.unit for one in (quantity(a), quantity(b)) if one is not None]
    return units[0] if len(units) == 1 else ""


def homes(answers: Sequence[CountedNumber]) -> list[int]:
    """Return for each answer the place of the first answer of its group [0..answers - 1].

    Answers with a unit are one group where they are equal after conversion. Those without one, and equal numbers whose
    unit has several meanings, join the group of that number with most answers, of equal ones the first; a group takes
    in one number without a unit at most, so that it never merges two.

    Example:
        >>> forms = ("10 km", "10", "10 mi", "10000 m", "10000")
        >>> homes([CountedNumber(number=form.split()[0], form=form) for form in forms])
        [0, 0, 2, 0, 4]
    """
    found = [quantity(one.form) for one in answers]
    groups = _groups_of_units(answers, found)
    joined = set[int]()
    sizes = [sum(answers[place].count for place in group) for group in groups]
    for members in _by_size(_without_unit(answers, found), answers):
        number = answers[members[0]].number
        fits = [
            at
            for at, group in enumerate(groups[: len(sizes)])
            if at not in joined and any(found[place] and answers[place].number == number for place in group)
        ]
        if fits:
            home = min(fits, key=lambda at: (-sizes[at], groups[at][0]))
            joined.add(home)
            groups[home] = groups[home] + members
        else:
            groups.append(members)
    places = {place: min(group) for group in groups for place in group}
    return [places[place] for place in range(len(answers))]


def _groups_of_units(answers: Sequence[CountedNumber], found: Sequence[Quantity | None]) -> list[list[int]]:
    """Return the places of the answers that have a unit, in groups of equal ones."""
    is_one_unit = len({one.unit for one in found if one is not None}) == 1
    definite, several = dict[Identity, list[int]](), dict[Identity, list[int]]()
    for place, one in enumerate(found):
        if one is not None and (is_one_unit or one.unit in _SEVERAL):
            (definite if is_one_unit else several).setdefault((one.unit, one.number), []).append(place)
        elif one is not None:
            definite.setdefault(_identities(one)[0], []).append(place)
    groups = list(definite.values())
    for members in _by_size(list(several.values()), answers):
        of = found[members[0]]
        assert of is not None
        fits = [group for identity, group in definite.items() if identity in _identities(of)]
        home = min(fits, key=lambda group: (-sum(answers[at].count for at in group), group[0]), default=None)
        if home is None:
            groups.append(members)
        else:
            home += members
    return groups


def _without_unit(answers: Sequence[CountedNumber], found: Sequence[Quantity | None]) -> list[list[int]]:
    numbers = dict[str, list[int]]()
    for place, one in enumerate(found):
        if one is None:
            numbers.setdefault(answers[place].number, []).append(place)
    return list(numbers.values())


def _by_size(groups: list[list[int]], answers: Sequence[CountedNumber]) -> list[list[int]]:
    return sorted(groups, key=lambda group: (-sum(answers[place].count for place in group), group[0]))


def _identities(one: Quantity) -> list[Identity]:
    """Return what the quantity is in base units, in each meaning of its unit."""
    return [(scale.dimension, scale.factor * one.number + scale.zero) for scale in _scales(one.unit)]


@lru_cache(maxsize=1_024)
def _scales(unit: str) -> tuple[_Scale, ...]:
    return tuple(map(_scale, _SEVERAL.get(unit, (unit,))))


def _scale(unit: str) -> _Scale:
    above, *below = unit.split("/")
    powers = [*((one, 1) for one in above.split("*")), *((one, -1) for one in below)]
    terms = [(name, side * int(power or 1)) for one, side in powers for name, _, power in [one.partition("^")]]
    money = " ".join(f"{name}^{power}" for name, power in terms if name in _CURRENCY_NAMES)
    measures = " * ".join(f"{_MEASURE_NAMES[name][0]}**{power}" for name, power in terms if name in _MEASURE_NAMES)
    if not measures:
        return _Scale(dimension=money, factor=Fraction(1), zero=Fraction(0))
    none, one = (_registry().Quantity(Fraction(many), measures).to_base_units() for many in (0, 1))
    zero = Fraction(none.magnitude)
    base = " ".join(sorted(f"{name}^{power}" for name, power in none.unit_items()))
    return _Scale(dimension=f"{money} {base}", factor=Fraction(one.magnitude) - zero, zero=zero)


@lru_cache(maxsize=1)
def _registry() -> Any:  # noqa: ANN401 - a registry makes its own types
    """Return the units of `pint`, whose numbers are fractions here."""
    from pint import UnitRegistry

    return UnitRegistry(non_int_type=Fraction)
