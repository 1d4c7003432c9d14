"""What one measure found, and the state that several make together."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Protocol

from chassis.inference.errors import DeadlineExceeded
from chassis.spend import Spend
from kernel.msv import COMPONENTS, MSV, MSVKind
from kernel.values import value
from services.router.service.subject import Drafted, Subject

STAGE = "assess"
# Share of the time that is left which a part of an assessment may take: the answer needs the rest.
TIME_SHARE = 0.25
NOT_MEASURED = "this assessor does not measure it"


@value
class Reading:
    """What one measure found.

    Attributes:
        components: Value by component of the state [0..1].
        reasons: Why a component that this measure is for is unknown.
        parts: Finer measurements by name [0..1].
        prompt_digests: Digest of each prompt template used, by its name.
        samples: Short answers that were drawn.
        drafted: The System 1 answer, if one was made.
    """

    components: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    samples: Sequence[str] = ()
    drafted: Drafted | None = None


class Measure(Protocol):
    """One source of evidence on a query."""

    async def __call__(self, subject: Subject, spend: Spend) -> Reading:
        """What it finds inside `spend`; never refuses: what cannot be measured is unknown, with its reason."""


@asynccontextmanager
async def in_part_of_the_time(spend: Spend) -> AsyncIterator[None]:
    """Bound what is inside to its share of the time that is left.

    Raises:
        DeadlineExceeded: When it takes longer; calls that it waited for are cancelled.
    """
    share_s = spend.seconds_left() * TIME_SHARE
    try:
        async with asyncio.timeout(share_s):
            yield
    except TimeoutError as late:
        raise DeadlineExceeded(f"assessing had {share_s:.1f} s, its share of the request's time") from late


def state_of(readings: Sequence[Reading], *, kind: MSVKind) -> MSV:
    """The state that `readings` make together; where two know a component, the earlier one is taken.

    Example:
        >>> told = Reading(components={"correctness": 0.9, "importance": 0.3})
        >>> shown = Reading(components={"correctness": 0.4}, reasons={"conflict": "one sample only"})
        >>> state = state_of([shown, told], kind=MSVKind.PROSPECTIVE)
        >>> state.correctness, state.importance, state.unknown_reasons["conflict"]
        (0.4, 0.3, 'one sample only')
    """
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    parts: dict[str, float] = {}
    for reading in readings:
        values = {**reading.components, **values}
        reasons = {**reading.reasons, **reasons}
        parts = {**reading.parts, **parts}
    unknown = {name: reasons.get(name, NOT_MEASURED) for name in COMPONENTS if name not in values}
    return MSV(**values, kind=kind, unknown_reasons=unknown, parts=parts)
