"""This module describes the stages of the dialectic as data.

Which stages there are, in which order and by which role is in `kernel.roles`; here is how each is written and read. The
prompt of a stage is the file of its name in `prompts`; it reads every text before it. A further stage takes a member of
`Role` and `Stage`, a row here and a prompt.
"""

from collections.abc import Mapping

from kernel.roles import CHAIN, Stage
from kernel.values import value


@value
class StageRule:
    """A stage rule says how one stage is written and read.

    Attributes:
        label: Label under which later prompts quote its text.
        is_answer: Whether its text answers the question; then it is the answer where no later stage succeeds.
        reads_draft: Whether its prompt shows the draft.
        shortest: Whether even one token makes its text, rather than leaving it out.
        most_tokens: Tokens that it has at most, whatever a stage may have [count]; None sets no limit of its own.
    """

    label: str
    is_answer: bool = True
    reads_draft: bool = False
    shortest: bool = False
    most_tokens: int | None = None


STAGES: Mapping[Stage, StageRule] = {
    Stage.THESIS: StageRule(label="first_answer", reads_draft=True, shortest=True),
    Stage.ANTITHESIS: StageRule(label="challenge", is_answer=False),
    Stage.RESOLUTION: StageRule(label="weighing"),
    Stage.SYNTHESIS: StageRule(label="answer"),
    Stage.NOTE: StageRule(label="note", is_answer=False, most_tokens=128),
}
# Stages whose text answers the question, best first.
ANSWERS = tuple(stage for stage in reversed(CHAIN) if STAGES[stage].is_answer)
