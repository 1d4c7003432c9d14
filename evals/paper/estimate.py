"""An estimate of what a paper's tables take, before anything is asked. Pure.

Source: ours (papers.md 4.4).
"""

from collections.abc import Sequence

from evals.markdown import number, power, table
from evals.paper.loads import RATING_TOKENS, Load
from kernel.values import value

# Tokens of a question with what stands around it, in the mean [count].
QUESTION_TOKENS = 250
SECONDS_PER_HOUR = 3600


@value
class Expected:
    """The most that one evaluation takes.

    Attributes:
        name: Its name.
        items: Its items [count].
        seeds: Its seeds [count].
        load: What one item with one seed takes.
        recorded: Share of its requests that are recorded already [0..1].
        text_tokens: Tokens of a text at most where the service sets them [count]; None: as asked for.
    """

    name: str
    items: int
    seeds: int
    load: Load
    recorded: float = 0.0
    text_tokens: int | None = None

    @property
    def cases(self) -> float:
        """Return how many items and seeds are not recorded yet [count]."""
        return self.items * self.seeds * (1 - self.recorded)

    def generated(self, max_tokens: int) -> float:
        """Return how many tokens are generated at most [count], with so many for a text."""
        max_tokens = self.text_tokens or max_tokens
        return self.cases * (self.load.texts * max_tokens + self.load.ratings * min(RATING_TOKENS, max_tokens))

    def read(self, max_tokens: int) -> float:
        """Return about how many tokens the prompts have [count]: the question in each, and whole texts of others."""
        max_tokens = self.text_tokens or max_tokens
        return self.cases * (self.load.prompts * QUESTION_TOKENS + self.load.quoted * max_tokens)


def hours(tokens: float, per_second: float) -> float:
    """Return the time in which a server generates so many tokens [h].

    Args:
        tokens: Tokens [count].
        per_second: Tokens that it generates in a second, over all requests together [1/s, > 0].

    Example:
        >>> hours(7_200_000, 1000)
        2.0
    """
    return tokens / per_second / SECONDS_PER_HOUR


def estimate_table(expected: Sequence[Expected], max_tokens: int, per_second: float, source: str) -> str:
    """Return the estimate of all evaluations, and their power.

    Args:
        expected: The evaluations.
        max_tokens: Tokens of a text at most [count].
        per_second: Tokens that the server generates in a second [1/s].
        source: Where that number is from.
    """
    rows = [_row(each, max_tokens, per_second) for each in expected]
    generated = sum(each.generated(max_tokens) for each in expected)
    read = sum(each.read(max_tokens) for each in expected)
    rows.append(
        [
            "all",
            "",
            "",
            number(sum(each.cases * each.load.requests for each in expected), 0),
            number(sum(each.cases * each.load.generations for each in expected), 0),
            number(read, 0),
            number(generated, 0),
            number(hours(generated, per_second)),
        ]
    )
    head = ["evaluation", "items x seeds", "recorded already", "requests", "generations", "prompt tokens, about"]
    head += ["generated at most", "GPU hours at most"]
    least = min(each.items for each in expected)
    others = "".join(f" ({each.name}: {each.text_tokens}, its default)" for each in expected if each.text_tokens)
    words = (
        f"At most {max_tokens} tokens a text{others} and {number(per_second, 0)} generated in a second ({source}). "
        f"Texts that end by themselves are shorter; reading long prompts takes time beside. "
        f"Power: with {least} items {power(least)}."
    )
    return f"{words}\n\n{table(head, rows)}"


def _row(each: Expected, max_tokens: int, per_second: float) -> Sequence[str]:
    generated = each.generated(max_tokens)
    return [
        each.name,
        f"{each.items} x {each.seeds}",
        f"{100 * each.recorded:.0f} %",
        number(each.cases * each.load.requests, 0),
        number(each.cases * each.load.generations, 0),
        number(each.read(max_tokens), 0),
        number(generated, 0),
        number(hours(generated, per_second)),
    ]
