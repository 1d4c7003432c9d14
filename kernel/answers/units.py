"""Units distinguish numbers: 10 km is 10,000 m and not 10 miles, and 5 euros are not 5 dollars (papers.md 2.3).

A fixed table has the names that count as units, since a word after a number rarely is one: "5 in total" has none. It
has their exact sizes too. Currencies are never converted, but for their hundredths.

Source: ours (papers.md 2.3); which names are read is ours.
"""

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product

from kernel.answers.numbers import decimal_places, has_finite_decimal, number_in, spelled
from kernel.values import value

# By what they measure: each unit with its size in base units, and its names in the singular; names of three letters and
# more are read in any case.
_MEASURES = {
    "m": """
mm .001 millimeter | cm .01 centimeter | m 1 meter | km 1000 kilometer | in .0254 inch | ft .3048 foot feet |
yd .9144 yard yds | mi 1609.344 mile | nmi 1852 nauticalmile | lightyear 9460730472580800""",
    "kg": """
mg .000001 milligram | g .001 gram | kg 1 kilogram kilo kgs | lb .45359237 pound lbs | ounce .028349523125 |
tonne 1000 metricton | shortton 907.18474""",
    "s": """
s 1 second sec secs | min 60 minute mins | h 3600 hour hr hrs | day 86400 | week 604800 | month 2629800 |
year 31557600 yr yrs | decade 315576000 | century 3155760000 | millisecond .001""",
    "m^3": """
mL .000001 milliliter ml | L .001 liter l | cup .0002365882365 | tbsp .00001478676478125 tablespoon |
tsp .00000492892159375 teaspoon | quart .000946352946 | gallon .003785411784 gal | floz .0000295735295625 fluidounce""",
    "m^2": "acre 4046.8564224 | hectare 10000",
    "angle": "arcdegree 1",
    "kelvin": """
kelvin 1 | °C 1 C celsius centigrade degreecelsius degreescelsius degreecentigrade degreescentigrade |
°F 5/9 F fahrenheit degreefahrenheit degreesfahrenheit""",
    "byte": "byte 1 | KB 1000 kilobyte | MB 1000000 megabyte | GB 1000000000 gigabyte | TB 1000000000000 terabyte",
    "kg*m^2/s^2": "J 1 joule | smallcalorie 4.184 | kcal 4184 kilocalorie",
    "kg*m^2/s^3": "W 1 watt | kW 1000 kilowatt | horsepower 745.69987158227022",
    "kg/m/s^2": "pascal 1 | kPa 1000 kilopascal | psi 8896443230521/1290320000",
    "kg*m/s^2": "N 1 newton",
    "kg*m^2/A/s^3": "V 1 volt",
    "A": "A 1 ampere amp",
    "kg*m^2/A^2/s^3": "ohm 1",
    "s^-1": "Hz 1 hertz | kHz 1000 kilohertz | MHz 1000000 megahertz | GHz 1000000000 gigahertz",
}
# Currencies with their size, and hundredths of them; then times of day, which are no measure of time.
_UNCONVERTED = """
USD 1 $ dollar usdollar | EUR 1 € euro | GBP 1 £ poundsterling poundssterling britishpound | JPY 1 yen |
CNY 1 yuan renminbi rmb chineseyuan | INR 1 ₹ rupee indianrupee | KRW 1 ₩ | CAD 1 canadiandollar |
AUD 1 australiandollar | CHF 1 franc swissfranc | MXN 1 peso mexicanpeso | RUB 1 ruble rouble | SEK 1 krona kronor |
NOK 1 | DKK 1 | ZAR 1 rand | BRL 1 | am 1 AM | pm 1 PM
"""
_HUNDREDTHS = {f"{currency}cent": currency for currency in ("USD", "EUR", "CAD", "AUD", "ZAR")} | {"pence": "GBP"}
# Names of several units: such a unit is equal to each of them.
_SEVERAL = {
    "pound": ("lb", "GBP"),
    "oz": ("ounce", "floz"),
    "ton": ("shortton", "tonne"),
    "degree": ("°C", "°F", "arcdegree"),
    "calorie": ("smallcalorie", "kcal"),
    "¥": ("JPY", "CNY"),
    "cent": tuple(name for name in _HUNDREDTHS if name.endswith("cent")),
}
_SEVERAL_NAMES = {"ounce": "oz", "°": "degree", "¢": "cent"}
_COMPOUNDS = {"mph": "mi/h", "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "kwh": "kW*h", "kilowatthour": "kW*h"}
# Temperatures have a zero of their own [kelvin].
_ZEROS = {"°C": Fraction("273.15"), "°F": Fraction("459.67") * Fraction(5, 9)}
# Such a unit is none with others: neither squared, nor by the hour.
_ALONE = frozenset([*_ZEROS, *_SEVERAL, "am", "pm"]) - {"cent"}
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


def _table(text: str) -> dict[str, tuple[Fraction, Sequence[str]]]:
    rows = (row.split() for row in text.split("|"))
    return {unit: (Fraction(size), names) for unit, size, *names in rows}


def _powers(unit: str) -> list[Term]:
    """Return the units with their powers that `_spelled` wrote as one text."""
    above, *below = unit.split("/")
    sides = [*((one, 1) for one in above.split("*")), *((one, -1) for one in below)]
    return [(name, side * int(power or 1)) for one, side in sides for name, _, power in [one.partition("^")]]


_MEASURE_NAMES = {unit: (of, *row) for of, text in _MEASURES.items() for unit, row in _table(text).items()}
_UNCONVERTED_NAMES = _table(_UNCONVERTED)
_CURRENCIES = frozenset([*_UNCONVERTED_NAMES, *_HUNDREDTHS, "cent", "¥"]) - {"am", "pm"}
_UNITS = (
    {
        name if len(name) < 3 or not name.islower() else name.casefold(): unit
        for unit, names in [
            *((unit, names) for unit, (_, _, names) in _MEASURE_NAMES.items()),
            *((unit, [unit.casefold(), *names]) for unit, (_, names) in _UNCONVERTED_NAMES.items()),
        ]
        for name in (unit, *names)
    }
    | {name: name for name in (*_SEVERAL, *_HUNDREDTHS)}
    | _SEVERAL_NAMES
)


def unit_name(currency: str, beside: str) -> str:
    """Return the unit that stands beside a number, spelled in one way; empty where what stands there is none.

    Args:
        currency: The currency sign before the number; empty without one.
        beside: The words after it.

    Returns:
        The unit: that of the words where all of them are one, by the sign's currency unless they name one; else that of
        the sign.

    Example:
        >>> unit_name("", "kilometers per hour"), unit_name("", "km/h"), unit_name("", "sq. ft"), unit_name("$", "")
        ('km/h', 'km/h', 'ft^2', 'USD')
        >>> unit_name("$", "USD"), unit_name("$", "per hour"), unit_name("", "am"), unit_name("", "pm")
        ('USD', 'USD/h', 'am', 'pm')
        >>> unit_name("", "in total"), unit_name("", "apples"), unit_name("", "a"), unit_name("$", "tip")
        ('', '', '', 'USD')
    """
    sign = _UNITS.get(currency, "")
    terms = _terms(beside.strip(), sign) if beside.strip() else None
    return sign if terms is None else terms


@lru_cache(maxsize=4_096)
def _terms(beside: str, sign: str) -> str | None:
    first, *below = _PER.split(beside)
    powers = dict[str, int]()
    parts = [(phrase, 1) for phrase in first.split("*") if first] + [(phrase, -1) for phrase in below]
    for phrase, side in parts:
        found = _factor(phrase.strip())
        if found is None:
            return None
        for unit, power in found:
            meant = sign if side * power > 0 and sign in _SEVERAL.get(unit, ()) else unit
            powers[meant] = powers.get(meant, 0) + side * power
    if sign and not any(unit in _CURRENCIES and power > 0 for unit, power in powers.items()):
        powers[sign] = powers.get(sign, 0) + 1
    return _spelled(powers)


def _spelled(powers: dict[str, int]) -> str | None:
    """Return units with their powers as one text; None for what is no unit that can be read again."""
    above = [_raised(unit, power) for unit, power in sorted(powers.items()) if power > 0]
    below = [_raised(unit, -power) for unit, power in sorted(powers.items()) if power < 0]
    alone = len(above) + len(below) == 1 and max(powers.values()) == 1
    if not above or len(above) + len(below) > _MOST_TERMS or max(map(abs, powers.values())) > 3:
        return None
    if not alone and _ALONE & powers.keys():
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
    return [form for form, unit in found if not _has_several(unit)] or [form for form, _ in found]


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
    of_number = dict[str, list[int]]()
    for at, group in enumerate(groups):
        for number in {answers[place].number for place in group}:
            of_number.setdefault(number, []).append(at)
    for members in _by_size(_without_unit(answers, found), answers):
        fits = [at for at in of_number.get(answers[members[0]].number, ()) if at not in joined]
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
        if one is not None and (is_one_unit or _has_several(one.unit)):
            (definite if is_one_unit else several).setdefault((one.unit, one.number), []).append(place)
        elif one is not None:
            definite.setdefault(_identities(one)[0], []).append(place)
    groups = list(definite.values())
    for members in _by_size(list(several.values()), answers):
        of = found[members[0]]
        assert of is not None
        fits = [definite[one] for one in _identities(of) if one in definite]
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


def _has_several(unit: str) -> bool:
    return len(_scales(unit)) > 1


@lru_cache(maxsize=1_024)
def _scales(unit: str) -> tuple[_Scale, ...]:
    """Return the scale of a unit in each of its meanings."""
    meanings = ([(meant, power) for meant in _SEVERAL.get(name, (name,))] for name, power in _powers(unit))
    return tuple(map(_scale, product(*meanings)))


def _scale(terms: Iterable[Term]) -> _Scale:
    factor, zero, bases = Fraction(1), Fraction(0), dict[str, int]()
    for name, power in terms:
        if name in _MEASURE_NAMES:
            of, size, _ = _MEASURE_NAMES[name]
        else:
            of, size = (_HUNDREDTHS[name], Fraction(1, 100)) if name in _HUNDREDTHS else (name, Fraction(1))
        factor, zero = factor * size**power, _ZEROS.get(name, zero)
        for base, times in _powers(of):
            bases[base] = bases.get(base, 0) + times * power
    dimension = " ".join(f"{base}^{power}" for base, power in sorted(bases.items()) if power)
    return _Scale(dimension=dimension, factor=factor, zero=zero)
