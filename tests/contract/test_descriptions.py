"""What a message says stands in the protos: values of services point to it, and pure values agree with it."""

import inspect
import re
from collections.abc import Mapping

from google.protobuf.descriptor import Descriptor

from docs.generating import contract
from tests.support.contracts.values import messages_with_values
from tests.support.stack import ROOT

PROTOS = contract.services(ROOT)

# Units and ranges, as in `[count]`, `[0..1]`.
UNITS = re.compile(r"\[[^\]]*\]")
IN_SERVICES = [
    (message, kind)
    for message, kind in messages_with_values()
    if kind.__module__.startswith("services.") and ".core." not in kind.__module__
]
PURE = [found for found in messages_with_values() if found not in IN_SERVICES]


def entries(kind: type) -> Mapping[str, str]:
    """What the docstring of a value says of its fields, by name."""
    _, _, attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    return dict(re.findall(r"^    (\w+): ((?:.|\n(?=     ))+)", attributes, re.MULTILINE))


def test_values_of_services_leave_their_fields_to_the_contract_and_say_so() -> None:
    described = [f"{kind.__name__}.{name}" for message, kind in IN_SERVICES for name in entries(kind)]
    silent = {kind.__module__ for _, kind in IN_SERVICES if "contract" not in (inspect.getmodule(kind).__doc__ or "")}

    assert len(IN_SERVICES) > 100
    assert (described, silent) == ([], set())


def test_pure_values_state_the_units_and_ranges_of_the_contract() -> None:
    compared = {
        f"{kind.__name__}.{name}": (UNITS.findall(text), UNITS.findall(comment(message, name)))
        for message, kind in PURE
        for name, text in entries(kind).items()
        if name in message.fields_by_name
    }
    stated = {name: units for name, units in compared.items() if all(units)}

    assert len(stated) > 40
    assert {name: units for name, units in stated.items() if units[0] != units[1]} == {}


def comment(message: Descriptor, field: str) -> str:
    return PROTOS.comments[f".{message.fields_by_name[field].full_name}"]
