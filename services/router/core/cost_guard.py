"""The cost guard bounds what a run generates by what System 1 alone needs for the same request.

Source: ours (papers.md 4.1). The envelope of a request is fixed before anything is known of it; how long a System 1
answer is, the draft shows. So a greeting, whose draft is short, never pays for a deliberation.
"""

from kernel.arbitration.defaults import SOLVERS
from kernel.policy import Strategy
from kernel.roles import CHAIN, ROLES

# Least and most multiple of System 1 that a guard may be: at twice, an assessment still fits beside the answer.
LEAST_TIMES, MOST_TIMES = 2, 1000
# What a draft counts at least [tokens]: a short answer may need a second opinion too.
LEAST_DRAFT_TOKENS = 64
# A rating or a classification [tokens].
RATING_TOKENS = 32
# Samples of the smallest useful arbitration: two of each solver, a critique of each, and one of the arbiter [count].
ARBITER_TEXTS = SOLVERS * 2 + SOLVERS + 1


def most_tokens(times_system1: float, draft_tokens: int | None) -> int:
    """Return what a run may generate in all, its draft and its assessment included [tokens].

    Args:
        times_system1: Tokens of the run over those of the draft, at most [2..1000].
        draft_tokens: Tokens of the System 1 answer [count, >= 0]; None where they are unknown.

    Source:
        Ours (papers.md 4.1).

    Example:
        >>> most_tokens(6, 12), most_tokens(6, 200), most_tokens(6, None)
        (384, 1200, 384)
    """
    return int(times_system1 * _counted(draft_tokens))


def least_tokens(strategy: Strategy, draft_tokens: int | None, max_tokens: int | None = None) -> int:
    """Return what the smallest useful run of a strategy generates beside the draft [tokens].

    Each text is taken to be as long as the draft, and a vote or an answer no longer than the caller allows.

    Args:
        strategy: The strategy.
        draft_tokens: Tokens of the System 1 answer [count, >= 0]; None where they are unknown.
        max_tokens: Tokens that the final text may have [count, >= 1]; None: the caller sets no limit.

    Source:
        Ours (papers.md 4.1): a vote beside the draft; the stages of the dialectic and the ratings of its agents; the
        samples and critiques of the arbiter; an agent's rating and its answer.

    Example:
        >>> least_tokens(Strategy.VOTE, 12), least_tokens(Strategy.VOTE, 12, 4), least_tokens(Strategy.DIALECTIC, 12)
        (64, 4, 416)
    """
    text = _counted(draft_tokens)
    final = min(text, max_tokens or text)
    match strategy:
        case Strategy.SYSTEM_ONE:
            return 0
        case Strategy.VOTE | Strategy.CASCADE:
            return final
        case Strategy.DIALECTIC:
            return len(CHAIN) * text + len(ROLES) * RATING_TOKENS
        case Strategy.ARBITER:
            return (ARBITER_TEXTS - 1) * text + final
        case Strategy.DELEGATION:
            return final + 2 * RATING_TOKENS


def _counted(draft_tokens: int | None) -> int:
    return max(draft_tokens or 0, LEAST_DRAFT_TOKENS)
