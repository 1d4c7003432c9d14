"""Towns, read back from the passage that describes them."""

import re

from evals.benchmark.records import Town

_TOWN = re.compile(
    r"(\w+) on the river (\w+) was founded in (\d+), has (\d+) thousand people, and has (a|no) harbour\."
)


def read_towns(passage: str) -> list[Town]:
    """Every town of a passage."""
    return [
        Town(name=name, founded=int(year), people=int(people), river=river, has_harbour=article == "a")
        for name, river, year, people, article in _TOWN.findall(passage)
    ]
