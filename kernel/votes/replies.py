"""Replies that keep the client's own format are compared as votes: calls of tools, and JSON (papers.md 5.7).

A reply is never put together from parts of several: one that a model wrote is returned as it is.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

from kernel.values import value

# Stands for a field that a document lacks; no canonical form is empty.
ABSENT = ""


@value
class ToolCall:
    """A call of a tool.

    Attributes:
        name: Name of the tool.
        arguments: Its arguments, parsed.
    """

    name: str
    arguments: object


def canonical_json(document: object) -> str:
    """Return a JSON document as a text; equal documents have equal texts.

    Names are sorted; a whole number is written without a fraction; texts are in Unicode's form NFC, without white space
    around them. The order of a list counts.

    Args:
        document: A document as `json.loads` returns it.

    Source:
        Ours (papers.md 5.7).

    Example:
        >>> canonical_json({"b": 5.0, "a": " Oslo "}) == canonical_json({"a": "Oslo", "b": 5})
        True
        >>> canonical_json({"a": True}) == canonical_json({"a": 1})
        False
    """
    return json.dumps(_normal(document), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _normal(document: object) -> object:
    match document:
        case bool() | None:
            return document
        case float() if document.is_integer():
            return int(document)
        case str():
            return normalize("NFC", document).strip()
        case Mapping():
            return {normalize("NFC", str(name)): _normal(item) for name, item in document.items()}
        case list() | tuple():
            return [_normal(item) for item in document]
    return document


def canonical_calls(calls: Sequence[ToolCall]) -> str:
    """Return calls of tools as a text; equal calls, in any order, have equal texts.

    Args:
        calls: The calls of one reply; parallel calls have no order.

    Source:
        Ours (papers.md 5.7).

    Example:
        >>> canonical_calls([ToolCall(name="weather", arguments={"city": "Oslo"})])
        'weather({"city":"Oslo"})'
    """
    return "; ".join(sorted(f"{call.name}({canonical_json(call.arguments)})" for call in calls))


def most_majority_fields(documents: Sequence[object]) -> int:
    """Return the index of the document that has the majority's value in most fields; of equal ones the first.

    A field is a value that is neither an object nor a list, at its path; an empty object or list is one too. A document
    without a field that others have says that it is absent. The majority's value of a field is the one that more
    documents have than any other; where two are ahead equally, a field has none.

    Args:
        documents: Documents as `json.loads` returns them [1 or more].

    Returns:
        Index [0..len(documents) - 1].

    Source:
        Ours (papers.md 5.7).

    Example:
        >>> votes = [{"name": "Ada", "year": 1815}, {"name": "Ada", "year": 1816}, {"name": "Bea", "year": 1815}]
        >>> most_majority_fields(votes)
        0
    """
    fields = [dict(_fields(_normal(document), "")) for document in documents]
    paths = sorted({path for each in fields for path in each})
    scores = [0] * len(documents)
    for path in paths:
        values = [each.get(path, ABSENT) for each in fields]
        (first, most), *others = Counter(values).most_common(2)
        if others and others[0][1] == most:
            continue
        scores = [score + (value == first) for score, value in zip(scores, values, strict=True)]
    return scores.index(max(scores))


def _fields(document: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a document in normal form: path, and value as JSON."""
    if isinstance(document, Mapping) and document:
        for name, item in document.items():
            yield from _fields(item, f"{path}/{json.dumps(name)}")
    elif isinstance(document, list) and document:
        for place, item in enumerate(document):
            yield from _fields(item, f"{path}/{place}")
    else:
        yield path, json.dumps(document, sort_keys=True)
