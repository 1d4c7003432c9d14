"""What the protos say of messages and fields stands there alone: values point to it, and OpenAPI repeats it."""

import inspect
import re
from collections.abc import Mapping

import httpx
from google.protobuf.descriptor import Descriptor

from chassis.serving.contract import http_rule
from chassis.serving.swagger.document import comments
from tests.contract.conftest import Served
from tests.support.contracts.values import messages_with_values

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
    return comments()[message.fields_by_name[field].full_name]


async def test_openapi_describes_every_field_in_the_words_of_the_contract(services: dict[str, Served]) -> None:
    words = set(comments().values())
    for served in services.values():
        async with httpx.AsyncClient(base_url=served.running.rest) as client:
            document = (await client.get("/openapi.json")).json()
        schemas = document["components"]["schemas"]
        schemas.pop("Problem")
        for name, schema in schemas.items():
            for field, part in schema.get("properties", {}).items():
                assert part.get("description") in words, f"{name}.{field}"
        for method in served.contract.methods:
            verb, path = http_rule(method)
            operation = document["paths"][path][verb.lower()]
            assert operation["description"] == comments()[method.full_name]
            for parameter in operation.get("parameters", ()):
                assert parameter["description"] == comment(method.input_type, parameter["name"])
