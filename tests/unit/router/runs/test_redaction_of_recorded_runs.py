"""Redaction of accounts that the services really gave leaves every number, and of their texts names and codes alone."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from chassis.redaction.messages import without_contents
from tests.recorded.__main__ import HERE
from tests.recorded.recorder import read, respelled
from tests.recorded.renaming import Renames
from tests.recorded.requests import REQUESTS
from tests.unit.router.runs.test_redaction import ACCOUNTS, leaves

# Counts by answer: the answers, and so their counts, are contents.
BY_ANSWER = {"solver", "arbiter", "counts", "vote_weights"}
Account = Mapping[str, Any]


@cache
def accounts() -> Mapping[str, list[Account]]:
    """The recorded accounts by strategy."""
    recording, renames = read(HERE / "recording.json.gz"), Renames.read(HERE / "renames.yaml")
    found: dict[str, list[Account]] = {}
    for request in REQUESTS:
        kept = recording["requests"].get(request.id)
        if kept is None or request.kind == "grpc":  # which has another spelling than what is stored
            continue
        for run in runs(respelled(kept["got"], renames, request)):
            found.setdefault(run["strategy"], []).append(run["deliberation"])
    return found


def runs(item: Any) -> Iterator[Account]:  # noqa: ANN401 - plain data is of any kind
    if isinstance(item, Mapping):
        if item.get("deliberation") and "run_id" in item:
            yield item
        for part in item.values():
            yield from runs(part)
    elif isinstance(item, list):
        for part in item:
            yield from runs(part)


@pytest.mark.parametrize("strategy", ["dialectic", "arbiter", "delegation"])
def test_no_sentence_of_a_recorded_account_stays_and_every_number_does(strategy: str) -> None:
    recorded = accounts()[strategy]
    assert len(recorded) >= 8

    for account in recorded:
        redacted = without_contents(account, ACCOUNTS[strategy])

        texts = [text for _, text in leaves(redacted) if isinstance(text, str)]
        assert [text for text in texts if " " in text.replace(" failed: ", "").replace(": ", "")] == []
        assert numbers(redacted) == numbers(account)


def numbers(account: Account) -> Mapping[tuple[str, ...], float]:
    """The numbers of an account with their places, without counts by answer."""
    return {
        path: item
        for path, item in leaves(account)
        if isinstance(item, bool | int | float) and not (len(path) > 1 and path[-2] in BY_ANSWER)
    }
