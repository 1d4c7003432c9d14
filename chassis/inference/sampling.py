"""Drawing samples with as few requests as the backend allows.

One `n=` request reads the prompt once, so that is the first choice. A backend that refuses so many samples, or returns
fewer and says nothing, is remembered, and gets the rest in further requests.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from chassis.inference.accounts import Account
from chassis.inference.bodies import Portion, asks_logprobs, body_of
from chassis.inference.config import BackendConfig
from chassis.inference.counting import prompt_characters
from chassis.inference.errors import BackendRefused, InvalidCall
from chassis.inference.features import Features, Learned, lesson
from chassis.inference.link import Link
from chassis.inference.replies import Drawn, drawn
from chassis.inference.values import Call, Completion, Sample, Work
from chassis.spend import Spend
from kernel.errors import MetacogError
from kernel.values import value


class Source(Protocol):
    """What samples are drawn for; it knows how to ask for them."""

    @property
    def work(self) -> Work:
        """Kind of work."""

    def body(self, portion: Portion, known: Features) -> Mapping[str, object]:
        """The request that draws `portion` from a backend of which so much is `known`."""

    def asks_logprobs(self, portion: Portion, known: Features) -> bool:
        """Whether that request asks for log-probabilities for our own sake."""

    def lesson(self, refusal: str) -> Features | None:
        """What a refusal of that request teaches about the backend, if anything."""


@value
class Asking:
    """A call, as a source of samples."""

    call: Call
    config: BackendConfig

    @property
    def work(self) -> Work:
        """As in `Source`."""
        return self.call.work

    def body(self, portion: Portion, known: Features) -> Mapping[str, object]:
        """As in `Source`."""
        return body_of(self.call, portion, self.config, known)

    def asks_logprobs(self, portion: Portion, known: Features) -> bool:
        """As in `Source`."""
        return asks_logprobs(self.call, portion, known)

    def lesson(self, refusal: str) -> Features | None:
        """As in `Source`."""
        return lesson(refusal)


@value
class Harvest:
    """What some portions brought, in order and none more samples than its own, and the first failure among them."""

    replies: tuple[Drawn, ...] = ()
    failure: MetacogError | None = None

    @property
    def count(self) -> int:
        """How many samples there are [count]."""
        return sum(len(reply.choices) for reply in self.replies)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, read."""
        return tuple(sample for reply in self.replies for sample in reply.samples)

    def plus(self, other: "Harvest") -> "Harvest":
        """Both, one after the other."""
        return Harvest(replies=self.replies + other.replies, failure=self.failure or other.failure)


class Draw:
    """Samples being drawn.

    Args:
        source: What they are drawn for.
        account: Where its cost goes.
        spend: Whose deadline holds.
        link: The way to the backend.
        learned: What is known of it; grows with each reply.
    """

    def __init__(self, source: Source, account: Account, spend: Spend, link: Link, learned: Learned) -> None:
        self._source = source
        self._account = account
        self._spend = spend
        self._link = link
        self._learned = learned

    async def samples(self, offset: int, count: int) -> Harvest:
        """Draw `count` samples, the first of which is number `offset` of all; failures are in the harvest."""
        portions = portions_of(offset, count, self._learned.now.samples_per_call, self._account.tokens_each)
        if len(portions) == 1:
            return await self._portion(portions[0])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._portion(portion)) for portion in portions]
        harvest = Harvest()
        for task in tasks:
            harvest = harvest.plus(task.result())
        return harvest

    async def _portion(self, portion: Portion) -> Harvest:
        known = self._learned.now
        try:
            got = await self._request(portion, known)
        except (BackendRefused, InvalidCall) as refused:
            if self._unlike_before(portion, known, refused):
                return await self.samples(portion.offset, portion.samples)
            return Harvest(failure=refused)
        except MetacogError as failure:
            return Harvest(failure=failure)
        self._learned.learn(got.shown)
        harvest = Harvest(replies=(got.first(portion.samples),))
        came = harvest.count
        if came < portion.samples:
            self._learned.learn(Features(samples_per_call=came))
            harvest = harvest.plus(await self.samples(portion.offset + came, portion.samples - came))
        return harvest

    async def _request(self, portion: Portion, known: Features) -> Drawn:
        body = self._source.body(portion, known)
        with self._account.exchange(portion.samples) as exchange:
            reply = await self._link.post(self._source.work, orjson.dumps(body), exchange, self._spend)
            got = drawn(
                self._link.backend,
                reply.body,
                asked_logprobs=self._source.asks_logprobs(portion, known),
                counts_all=known.usage_totals,
                prompt_characters=prompt_characters(body["messages"]),
            )
            exchange.cost(got.usage)
        return got

    def _unlike_before(self, portion: Portion, known: Features, refused: MetacogError) -> bool:
        """Learn from `refused`, and tell whether the same portion would now be asked for differently."""
        taught = self._source.lesson(refused.message)
        if taught is not None:
            self._learned.learn(taught)
        now = self._learned.now
        if now.samples_per_call is not None and now.samples_per_call < portion.samples:
            return True
        return self._source.body(portion, now) != self._source.body(portion, known)


def portions_of(offset: int, count: int, at_most: int | None, tokens: int) -> Sequence[Portion]:
    """`count` samples from number `offset` on, in parts of at most `at_most`.

    Example:
        >>> [(part.offset, part.samples) for part in portions_of(0, 10, 4, 64)]
        [(0, 4), (4, 4), (8, 2)]
    """
    size = at_most or count
    starts = range(0, count, size)
    return [Portion(offset=offset + start, samples=min(size, count - start), tokens=tokens) for start in starts]


def completed(call: Call, harvest: Harvest, account: Account) -> Completion:
    """What `call` gets: equal samples, drawn once, as often as it asked for them.

    Raises:
        MetacogError: The harvest's failure, when there is no sample.
    """
    if harvest.failure is not None and not harvest.count:
        raise harvest.failure
    samples = tuple(as_asked(sample, call) for sample in harvest.samples)
    return Completion(
        samples=samples * (call.samples // call.drawn),
        usage=account.spent,
        model=next((reply.model for reply in harvest.replies if reply.model), ""),
        cut=account.cut,
        shortfall=harvest.failure,
    )


def as_asked(sample: Sample, call: Call) -> Sample:
    """`sample` without the log-probabilities and alternatives that only the client itself had asked for."""
    if sample.logprobs is None:
        return sample
    if not call.logprobs:
        return replace(sample, logprobs=None)
    return replace(sample, logprobs=tuple(replace(each, top=each.top[: call.top_logprobs]) for each in sample.logprobs))
