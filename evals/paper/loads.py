"""The most that the evaluations behind a paper's tables ask a model for, item by item. Pure."""

from collections.abc import Sequence

from kernel.arbitration.defaults import SOLVERS
from kernel.values import value

# Tokens of a rating at most [count].
RATING_TOKENS = 64
# Tokens of a System 1 answer at most where a request states none, as in routing [count]: the router's default.
ANSWER_TOKENS = 1024
# Agents of the suite's own files: those that deliberate, and the paper's specialists [count].
DELIBERATING, SPECIALISTS = 5, 3
# Stages of a dialectic that write a text, and the generalist's note [count].
CHAIN, NOTE = 4, 1
# Samples of the majority vote, and the most answers of the default System 2 with its draft [count].
VOTES, USUAL = 10, 6
# An agent that cannot be read is asked once more [count].
ATTEMPTS = 2


@value
class Load:
    """The most that one item, with one seed, takes.

    Attributes:
        requests: Requests to the suite [count].
        texts: Texts that a model writes [count].
        ratings: Ratings, short samples and choices [count].
        prompts: Prompts that a model reads, several samples of one prompt being one [count].
        quoted: Texts of others that these prompts quote [count].
    """

    requests: int
    texts: int
    ratings: int
    prompts: int
    quoted: int = 0

    @property
    def generations(self) -> int:
        """Return how much a model generates [count]."""
        return self.texts + self.ratings


def total(loads: Sequence[Load]) -> Load:
    """Return the sum of loads.

    Example:
        >>> one = Load(requests=1, texts=2, ratings=3, prompts=2, quoted=4)
        >>> total([one, one])
        Load(requests=2, texts=4, ratings=6, prompts=4, quoted=8)
    """
    return Load(
        requests=sum(each.requests for each in loads),
        texts=sum(each.texts for each in loads),
        ratings=sum(each.ratings for each in loads),
        prompts=sum(each.prompts for each in loads),
        quoted=sum(each.quoted for each in loads),
    )


def arbitration(solver_samples: int, arbitration_samples: int) -> Load:
    """Return the load of the full procedure, of self-consistency with as many generations, and of replays.

    Replays call no model.

    Args:
        solver_samples: Samples of each solver, K_s [count].
        arbitration_samples: Samples of the arbiter, K_a [count].

    Example:
        >>> arbitration(5, 50).texts  # twice 2 * 5 + 2 + 50
        124
    """
    texts = SOLVERS * solver_samples + SOLVERS + arbitration_samples
    # Each critique quotes a solution, each arbitration every solution and critique.
    return Load(requests=6, texts=2 * texts, ratings=0, prompts=2 * SOLVERS + 2, quoted=SOLVERS + 2 * SOLVERS)


def routing() -> Load:
    """Return the load of the router's choice by every assessor and by its defaults, and of the System 1 answer."""
    # verbalized, probe, hybrid, draft and default, each with a rating asked for once more.
    return Load(requests=6, texts=2, ratings=2 + 5 + 7 + 8 + 2, prompts=11)


def dialectic(agents: int = DELIBERATING) -> Load:
    """Return the load of dialectics with optimal, greedy and random roles, one measured at each stage, and controls."""
    deliberation = Load(
        requests=1,
        texts=CHAIN + NOTE,
        ratings=ATTEMPTS * agents,
        prompts=ATTEMPTS * agents + CHAIN + NOTE,
        quoted=1 + 2 + 3 + 3,
    )
    measured = Load(requests=0, texts=0, ratings=ATTEMPTS * CHAIN, prompts=ATTEMPTS * CHAIN, quoted=ATTEMPTS * CHAIN)
    alike = deliberation.generations + measured.generations
    votes = Load(requests=2, texts=alike + VOTES, ratings=0, prompts=2)
    routed = Load(requests=2, texts=1, ratings=ATTEMPTS, prompts=1 + ATTEMPTS)
    return total([routed, deliberation, measured, votes, deliberation, deliberation])


def usual_routing() -> Load:
    """Return the load of the router's answers by its defaults, of System 1, and of votes with as many generations."""
    return Load(
        requests=4, texts=1 + USUAL + USUAL + ATTEMPTS + VOTES, ratings=ATTEMPTS, prompts=1 + USUAL + ATTEMPTS + 2
    )


def delegation(agents: int = SPECIALISTS, *, product: bool = True) -> Load:
    """Return the load of all agents' ratings and answers, of keywords, self-consistency, and the service's defaults."""
    ratings = ATTEMPTS * agents
    recorded = Load(requests=2, texts=agents, ratings=ratings, prompts=ratings + agents)
    controls = Load(requests=2, texts=ratings + agents, ratings=1, prompts=2)
    usual = Load(requests=1, texts=agents, ratings=ratings, prompts=ratings + agents)
    return total([recorded, controls, *([usual] if product else [])])


def conversation(replies: int) -> Load:
    """Return the load of a conversation of AutoGen's team, which selects each speaker in three attempts at most."""
    return Load(
        requests=1, texts=replies, ratings=3 * replies, prompts=4 * replies, quoted=4 * replies * (replies - 1) // 2
    )
