"""This module is the client of one backend.

    backend = Backend(BackendConfig(name="local", base_url="http://127.0.0.1:8000", model="smollm2"))
    call = Call(messages=[{"role": "user", "content": "Hi"}], max_tokens=64, stage="draft", work=WorkKind.STAGE)
    completion = await backend.complete(call, spend)

Every call reserves its worst case on `spend.ledger` before it is sent, books what it cost, and ends by `spend`'s
deadline. Cancelling the task that awaits a call closes the connection, so that the backend stops generating.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

import orjson

from configuration.agents import AgentConfig
from inference.accounting.accounts import CallAccount, Tariff
from inference.accounting.reports import CallReports, NoObserver, Observer
from inference.accounting.stream_cost import StreamMeter, StreamTally
from inference.catalogue import Catalogue
from inference.config import BackendConfig
from inference.errors import InvalidCall, ModelNotFound, UnparsableOutput
from inference.features import Features, LearnedFeatures
from inference.http.backend_connection import BackendConnection, Headers
from inference.http.event_parser import parse_event
from inference.http.http_transport import HttpTransport
from inference.http.open_stream import OpenStream
from inference.http.timing import DeadlineScope, Timing
from inference.http.transport import Transport
from inference.json_fields import parse_object
from inference.sampling.merging import reply_of
from inference.sampling.sampler import (
    CallSource,
    ForwardedRequest,
    ForwardedSource,
    Portion,
    SampleBatch,
    Sampler,
    SampleSource,
    body_of,
    completion_of,
    forwarded_request,
    max_prompt_tokens,
    prompt_characters,
)
from inference.sampling.structured import is_no_json, structured
from inference.spend import Spend
from inference.streaming.forwarding import ForwardedStream, check_stream_samples
from inference.streaming.gathering import merge_chunks
from inference.streaming.sample_stream import SampleStream
from inference.values import Call, Completion, Delta, ModelInfo, Reply, Structured, WorkKind
from kernel.envelope import BudgetExhausted, StageUsage, UnpricedModel
from kernel.msv.ratings import ORDER, read_rating
from kernel.prices import Price, Prices, price_of

T = TypeVar("T")


class Backend:
    """A backend is the client of one inference server; build it once, in the loop that uses it, and close it.

    Args:
        config: The backend.
        transport: HTTP; our own unless given.
        timing: Clock, sleep and random numbers.
        observer: Receives each call that ends.
        headers: Headers to add to each request, such as the trace context.
    """

    def __init__(
        self,
        config: BackendConfig,
        *,
        transport: Transport | None = None,
        timing: Timing | None = None,
        observer: Observer | None = None,
        headers: Headers = dict,
    ) -> None:
        timing = timing or Timing()
        transport = transport or HttpTransport(
            connect_timeout_s=config.connect_timeout_s, idle_timeout_s=config.idle_timeout_s
        )
        self.config = config
        self._connection = BackendConnection(config, transport, timing, headers)
        self._catalogue = Catalogue(config, self._connection, timing.clock)
        self._learned = LearnedFeatures(config.name, Features(samples_per_call=config.max_samples_per_call))
        self._reports = CallReports(config, observer or NoObserver(), timing.clock)

    @property
    def features(self) -> Features:
        """Return the abilities of the backend that are known so far."""
        return self._learned.now

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Draw the samples of `call`.

        Where some requests of a large draw fail and others bring samples, those are returned, with the `shortfall`.

        Raises:
            InferenceError: When there is no sample; see `errors`.
            BudgetExhausted: When not even `floor_tokens` for each sample are left. Nothing was sent.
        """
        with self._reports.open(call.work, call.stage) as report:
            context = await self._check(call.max_tokens, spend)
            with report.account_open(self._account(call, spend, context)) as account:
                source = CallSource(call=call, config=self.config)
                batch = await self._sample_batch(source, call.drawn, account, spend)
            return completion_of(call, batch, account)

    async def complete_json(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Draw the samples of `call` and read each as a document that follows `call.schema`.

        Numbers outside the schema's bounds are moved to them, and named. A backend that turns out to ignore schemas
        gets the schema in words in a second try, and from then on.

        Args:
            call: What to draw, with a schema.
            parse: Makes the value of a document that follows the schema; a `ValueError` rejects it.
            spend: What may be spent.

        Raises:
            UnparsableOutput: When not one sample follows the schema.
            InferenceError, BudgetExhausted: As `complete`.
        """
        if call.schema is None:
            raise InvalidCall("schema", "it is needed to read the answer as JSON")
        completion = await self.complete(call, spend)
        try:
            read = structured(completion, call.schema, parse)
        except UnparsableOutput as unparsable:
            if not self._ignored_schema(completion):
                raise
            try:
                completion = await self.complete(call, spend)
            except BudgetExhausted:
                raise unparsable from None
            return structured(completion, call.schema, parse)
        if self.features.schema is None:
            self._learned.learn(Features(schema=True))
        return read

    async def stream(self, call: Call, spend: Spend) -> SampleStream:
        """Draw the one sample of `call`, piece by piece; what is returned must be entered or closed.

        Raises:
            InferenceError, BudgetExhausted: As `complete`, before the first piece; later the iteration raises them.
        """
        if call.samples != 1:
            raise InvalidCall("samples", "a stream draws one")
        report = self._reports.open(call.work, call.stage)
        with report.end_on_failure():
            context = await self._check(call.max_tokens, spend)
            account = self._account(call, spend, context)
        portion = Portion(offset=0, samples=1, tokens=account.tokens_each)
        body = body_of(call, portion, self.config, self.features, stream=True)
        meter = StreamMeter(account, StreamTally(1, prompt_characters(body["messages"])), report)
        top_logprobs = call.top_logprobs if call.logprobs else None
        return SampleStream(top_logprobs, await self._open(call.work, body, meter, spend), meter)

    async def forward(
        self, body: Mapping[str, object], spend: Spend, stage: str, *, work: WorkKind = WorkKind.SYSTEM_ONE
    ) -> Reply:
        """Pass on an OpenAI chat completion as the caller wrote it, for our model and within the envelope.

        More samples than the backend draws in one request come in several, and equal ones are drawn once, as in
        `complete`; the reply is one document with all of them. If one is missing in the end, that is a failure. From
        a backend that may not notice that the caller has disconnected, one sample is read as a stream (`gathering`).

        Raises:
            InferenceError, BudgetExhausted: As `complete`.
        """
        if self._catalogue.overlooks_lost_clients and body.get("n") in (None, 1):
            return await self._merged_stream(body, spend, stage, work)
        with self._reports.open(work, stage) as report:
            request = forwarded_request(body)
            source = await self._forwarding(request, request.drawn, spend, stage, work)
            with report.account_open(source.account) as account:
                batch = await self._sample_batch(source, request.drawn, account, spend)
            return reply_of(source, batch)

    async def forward_stream(
        self, body: Mapping[str, object], spend: Spend, stage: str, *, work: WorkKind = WorkKind.SYSTEM_ONE
    ) -> ForwardedStream:
        """Pass on an OpenAI chat completion and its stream of events; what is returned must be entered or closed.

        Raises:
            InvalidCall: For `n`, when the backend draws fewer samples in one stream than the body requests.
            InferenceError, BudgetExhausted: As `complete`, before the first event; later the iteration raises them.
        """
        report = self._reports.open(work, stage)
        with report.end_on_failure():
            request = forwarded_request(body)
            source = await self._forwarding(request, request.samples, spend, stage, work)
        meter = StreamMeter(source.account, StreamTally(request.samples, prompt_characters(body["messages"])), report)
        stream = await self._open(work, source.streamed(self.features), meter, spend)
        return ForwardedStream(stream, meter, request, self._learned)

    async def models(self) -> tuple[ModelInfo, ...]:
        """Return the models that the backend serves, cached for a minute; empty where it lists none."""
        return await self._catalogue.known() or ()

    async def probe(self) -> None:
        """Check now that the backend is ready to serve our model.

        Raises:
            BackendUnavailable: When it cannot be reached or is not ready.
            ModelNotFound: When it serves others.
            InferenceError: When it rejects the request.
        """
        await self._catalogue.models()
        await self._catalogue.check(None)

    async def aclose(self) -> None:
        """Close every connection; calls under way fail."""
        await self._connection.aclose()

    async def _check(self, max_tokens: int | None, spend: Spend) -> int | None:
        if self._catalogue.is_fresh:
            return await self._catalogue.check(max_tokens)
        async with DeadlineScope(spend, self.config.name):
            return await self._catalogue.check(max_tokens)

    def _account(self, call: Call, spend: Spend, context: int | None) -> CallAccount:
        prompt = {"messages": call.messages, "schema": call.schema, "extra": call.extra}
        return CallAccount(
            spend.ledger,
            call.stage,
            generations=call.drawn,
            wanted_tokens=call.max_tokens,
            floor_tokens=call.floor_tokens,
            tariff=self._tariff(prompt, call.drawn, spend, context),
        )

    def _tariff(self, body: Mapping[str, object], samples: int, spend: Spend, context: int | None) -> Tariff | None:
        """Return the tariff of a call that draws `samples` for `body`; None where no price is known.

        Raises:
            UnpricedModel: When no price is known, and the cost is limited.
        """
        price = self.config.price
        if price is None:
            if spend.limits.max_cost is not None:
                raise UnpricedModel(self.config.model)
            return None
        requests = -(-samples // (self.features.samples_per_call or samples))
        return Tariff(price=price, prompt_tokens=max_prompt_tokens(body, context), requests=requests)

    async def _sample_batch(self, source: SampleSource, count: int, account: CallAccount, spend: Spend) -> SampleBatch:
        batch = await Sampler(source, account, spend, self._connection, self._learned).samples(0, count)
        if isinstance(batch.failure, ModelNotFound):
            self._catalogue.forget()
        return batch

    async def _forwarding(
        self, request: ForwardedRequest, generations: int, spend: Spend, stage: str, work: WorkKind
    ) -> ForwardedSource:
        context = await self._check(request.tokens, spend)
        tokens = request.tokens_each(self.config.default_max_tokens, context)
        tariff = self._tariff(request.body, generations, spend, context)
        account = CallAccount(spend.ledger, stage, generations=generations, wanted_tokens=tokens, tariff=tariff)
        return ForwardedSource(request=request, account=account, config=self.config, work=work)

    async def _open(self, work: WorkKind, body: Mapping[str, object], meter: StreamMeter, spend: Spend) -> OpenStream:
        try:
            with check_stream_samples(meter.tally.samples, self.config.name, self._learned):
                return await self._connection.open(work, orjson.dumps(body), meter.exchange, spend)
        except BaseException as error:
            meter.close(error)
            raise

    async def _merged_stream(self, body: Mapping[str, object], spend: Spend, stage: str, work: WorkKind) -> Reply:
        streamed = {**body, "stream_options": {"include_usage": True}}
        async with await self.forward_stream(streamed, spend, stage, work=work) as stream:
            events = [parse_event(event.raw).data async for event in stream if not event.done]
        whole = merge_chunks([parse_object(data) for data in events if data])
        return Reply(body=orjson.dumps(whole), document=whole, usage=stream.usage, cut=stream.cut)

    def _ignored_schema(self, completion: Completion) -> bool:
        """Return whether `completion` shows that the backend ignores schemas, and remember it."""
        ended = [sample for sample in completion.samples if sample.finish_reason == "stop"]
        ignored = self.features.schema is None and bool(ended) and all(is_no_json(sample.text) for sample in ended)
        if ignored:
            self._learned.learn(Features(schema=False))
        return ignored


class CompletionStream(Protocol):
    """A stream is iterated for the pieces of one sample; `aclose` ends it at any point."""

    @property
    def completion(self) -> Completion:
        """Return the whole sample and its cost, once the iteration has ended."""

    @property
    def usage(self) -> StageUsage:
        """Return what the stream has cost so far."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Return the pieces."""

    async def aclose(self) -> None:
        """Close the stream; the backend stops generating."""


class ModelClient(Protocol):
    """A model client calls the model of one agent.

    Every method raises `InferenceError`, or `BudgetExhausted` before anything is sent.
    """

    @property
    def model(self) -> str:
        """Return the name of the model."""

    @property
    def price(self) -> Price | None:
        """Return the price of the model's tokens; None where it is not known."""

    async def stream(self, call: Call, spend: Spend) -> CompletionStream:
        """Return the stream of the one sample of `call`, to be entered or closed."""

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of `call`."""

    async def rate(self, call: Call, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""


class ModelClients(Protocol):
    """A process has one model client for each agent."""

    def of(self, agent: AgentConfig) -> ModelClient:
        """Return the client of `agent`."""

    def assessor(self) -> ModelClient:
        """Return the client of the model that rates all texts."""


class BackendModelClient:
    """The client calls one backend, as the agents of one model do."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.model = backend.config.model
        self.price = backend.config.price

    async def stream(self, call: Call, spend: Spend) -> SampleStream:
        """Return the stream of the one sample of `call`, to be entered or closed."""
        return await self._backend.stream(call, spend)

    async def complete(self, call: Call, spend: Spend) -> Completion:
        """Return the samples of `call`."""
        return await self._backend.complete(call, spend)

    async def rate(self, call: Call, spend: Spend, order: Sequence[str] = ORDER) -> Mapping[str, float]:
        """Return the numbers of one structured rating, by the names of `order`."""
        return await self.read(call, partial(read_rating, order=order), spend)

    async def read(self, call: Call, parse: Callable[[object], T], spend: Spend) -> T:
        """Return the one document of `call` that follows its schema, as `parse` reads it."""
        return (await self.structured(call, parse, spend)).values[0]

    async def structured(self, call: Call, parse: Callable[[object], T], spend: Spend) -> Structured[T]:
        """Return the documents of `call` that follow its schema, as `parse` reads them, with their cost."""
        return await self._backend.complete_json(call, parse, spend)


class BackendModelClients:
    """The backends of a process are built when first used, one for each server and model.

    Args:
        default: Backend of agents that name no server or model, and of the assessor.
        build: Builds a backend from its configuration.
        prices: Prices by model.
    """

    def __init__(
        self, default: Backend, build: Callable[[BackendConfig], Backend], prices: Prices = MappingProxyType({})
    ) -> None:
        self.default = default
        self._build = build
        self._prices = prices
        self._backends: dict[tuple[str, str], Backend] = {
            (default.config.base_url, default.config.model): default,
        }

    def of(self, agent: AgentConfig) -> BackendModelClient:
        """Return the client of `agent`."""
        base = self.default.config
        server_and_model = (agent.base_url or base.base_url, agent.model or base.model)
        if server_and_model not in self._backends:
            config = BackendConfig(
                name=f"{server_and_model[1]}@{server_and_model[0]}",
                base_url=server_and_model[0],
                model=server_and_model[1],
                api_key=self._key(agent),
                price=price_of(server_and_model[1], self._prices),
            )
            self._backends[server_and_model] = self._build(config)
        return BackendModelClient(self._backends[server_and_model])

    def _key(self, agent: AgentConfig) -> str | None:
        """Return the key for the agent's server; another server never gets the default server's key."""
        if agent.api_key_env:
            return os.environ.get(agent.api_key_env)
        base = self.default.config
        return base.api_key if agent.base_url in ("", base.base_url) else None

    def assessor(self) -> BackendModelClient:
        """Return the client of the model that rates all texts."""
        return BackendModelClient(self.default)

    async def close(self) -> None:
        """Close every backend."""
        for backend in self._backends.values():
            await backend.aclose()
