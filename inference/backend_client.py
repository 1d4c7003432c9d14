"""This module is the client of one backend: one model, wherever it is served.

    backend = Backend(BackendConfig(name="local", endpoints=[Endpoint(url="http://127.0.0.1:8000")], model="smollm2"))
    call = Call(messages=[{"role": "user", "content": "Hi"}], max_tokens=64, stage="draft", work=WorkKind.STAGE)
    completion = await backend.complete(call, spend)

Every call reserves its worst case on `spend.ledger` before it is sent, books what it cost, and ends by `spend`'s
deadline. Cancelling the task that awaits a call closes the connection, so that the backend stops generating.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import orjson

from inference.accounting.accounts import CallAccount, Tariff
from inference.accounting.reports import CallReports, NoObserver, Observer
from inference.accounting.stream_cost import StreamMeter, StreamTally
from inference.config import BackendConfig
from inference.errors import BackendUnavailable, InferenceError, InvalidCall, ModelNotFound, UnparsableOutput
from inference.features import Features, LearnedFeatures
from inference.http.backend_connection import BackendConnection, Headers
from inference.http.event_parser import parse_event
from inference.http.http_transport import HttpTransport
from inference.http.open_stream import OpenStream
from inference.http.timing import DeadlineScope, Timing
from inference.http.transport import Transport
from inference.json_fields import object_of, objects_of, parse_object
from inference.sampling.merging import reply_of
from inference.sampling.passing import passed_usage, read_passed
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
from inference.served_models import ServedModels
from inference.spend import Spend
from inference.streaming.forwarding import ForwardedStream, check_stream_samples
from inference.streaming.gathering import merge_chunks
from inference.streaming.sample_stream import SampleStream
from inference.values import CHAT, Call, Completion, ModelInfo, PassedCall, Place, Reply, Structured, WorkKind
from kernel.envelope import BudgetExhausted, UnpricedModel

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
            connect_timeout_s=config.connect_timeout_s,
            idle_timeout_s=config.idle_timeout_s,
            max_reply_bytes=config.max_reply_bytes,
        )
        self.config = config
        self._connection = BackendConnection(config, transport, timing, headers)
        self._served = ServedModels(config, self._connection, timing.clock)
        self._learned = LearnedFeatures(config.name, config.features)
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
        if self._served.overlooks_lost_clients and body.get("n") in (None, 1):
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

    async def pass_on(
        self, call: PassedCall, spend: Spend, stage: str, *, work: WorkKind = WorkKind.SYSTEM_ONE
    ) -> Reply:
        """Pass on a request to another place than chat completions, for our model and within the envelope.

        Raises:
            EndpointNotServed: When the backend has no such place, or not for its model.
            InvalidCall: For `n`, when it generates fewer texts than requested.
            InferenceError, BudgetExhausted: As `complete`.
        """
        with self._reports.open(work, stage, call.place) as report:
            account = await self._passed_account(call, spend, stage)
            with report.account_open(account), account.exchange(call.samples) as exchange:
                body = orjson.dumps(self._passed_body(call, account, work))
                reply = await self._connection.post(work, body, exchange, spend, call.place)
                document = read_passed(self.config.name, reply.body)
                exchange.record_usage(passed_usage(call, document))
            if len(objects_of(document.get("choices"))) < call.samples:
                raise InvalidCall("n", f"backend {self.config.name} generates fewer texts than {call.samples}")
            return Reply(body=reply.body, document=document, usage=account.spent, cut=account.cut)

    async def pass_on_stream(
        self, call: PassedCall, spend: Spend, stage: str, *, work: WorkKind = WorkKind.SYSTEM_ONE
    ) -> ForwardedStream:
        """Pass on such a request and its stream of events; what is returned must be entered or closed.

        Raises:
            EndpointNotServed, InvalidCall, InferenceError, BudgetExhausted: As `pass_on`, before the first event; later
                the iteration raises them.
        """
        report = self._reports.open(work, stage, call.place)
        with report.end_on_failure():
            account = await self._passed_account(call, spend, stage)
        meter = StreamMeter(account, StreamTally(call.samples, call.characters or 0), report)
        options = {**object_of(call.body.get("stream_options")), "include_usage": True}
        body = {**self._passed_body(call, account, work), "stream": True, "stream_options": options}
        return ForwardedStream(await self._open(work, body, meter, spend, call.place), meter, call, self._learned)

    async def models(self) -> tuple[ModelInfo, ...]:
        """Return the models that the backend serves, cached for a minute; empty where it lists none."""
        return await self._served.known() or ()

    async def models_by_endpoint(self) -> Sequence[tuple[ModelInfo, ...] | InferenceError]:
        """Fetch the models that each endpoint lists now, or the error that it gives, in the order of the endpoints."""
        return await self._served.by_endpoint()

    async def probe(self) -> None:
        """Check now that the backend is ready to serve our model.

        Raises:
            BackendUnavailable: When it cannot be reached or is not ready.
            ModelNotFound: When it serves others.
            InferenceError: When it rejects the request.
        """
        await self._served.models()
        await self._served.check(None)

    async def aclose(self) -> None:
        """Close every connection; calls under way fail."""
        await self._connection.aclose()

    async def _check(self, max_tokens: int | None, spend: Spend) -> int | None:
        if self._served.is_fresh:
            return await self._served.check(max_tokens)
        async with DeadlineScope(spend, self.config.name):
            return await self._served.check(max_tokens)

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
            self._served.forget()
        return batch

    async def _forwarding(
        self, request: ForwardedRequest, generations: int, spend: Spend, stage: str, work: WorkKind
    ) -> ForwardedSource:
        context = await self._check(request.tokens, spend)
        tokens = request.tokens_each(self.config.default_max_tokens, context)
        tariff = self._tariff(request.body, generations, spend, context)
        account = CallAccount(spend.ledger, stage, generations=generations, wanted_tokens=tokens, tariff=tariff)
        return ForwardedSource(request=request, account=account, config=self.config, work=work)

    async def _passed_account(self, call: PassedCall, spend: Spend, stage: str) -> CallAccount:
        await self._check(call.tokens if call.samples else None, spend)
        reads = call.characters is not None
        tariff = self._tariff(call.body, max(1, call.samples), spend, None) if reads else None
        return CallAccount(
            spend.ledger, stage, generations=call.samples, wanted_tokens=call.tokens, floor_tokens=1, tariff=tariff
        )

    def _passed_body(self, call: PassedCall, account: CallAccount, work: WorkKind) -> dict[str, object]:
        """Return a passed call as it is sent: for our model, and within the envelope; all other fields as received."""
        body = {**call.body, "model": self.config.model}
        if not call.samples:
            return body
        priority = {"priority": self.config.priorities[work]} if work in self.config.priorities else {}
        return {**body, **priority, "max_tokens": account.tokens_each}

    async def _open(
        self, work: WorkKind, body: Mapping[str, object], meter: StreamMeter, spend: Spend, place: Place = CHAT
    ) -> OpenStream:
        try:
            with check_stream_samples(meter.tally.samples, self.config.name, self._learned):
                return await self._connection.open(work, orjson.dumps(body), meter.exchange, spend, place)
        except BaseException as error:
            meter.close(error)
            raise

    async def _merged_stream(self, body: Mapping[str, object], spend: Spend, stage: str, work: WorkKind) -> Reply:
        """Read one sample as a stream; where it breaks off, and there is another endpoint, once more from there."""
        streamed = {**body, "stream_options": {"include_usage": True}}
        for left in reversed(range(len(self.config.endpoints))):
            async with await self.forward_stream(streamed, spend, stage, work=work) as stream:
                try:
                    events = [parse_event(event.raw).data async for event in stream if not event.done]
                    break
                except BackendUnavailable as error:
                    await stream.aclose(error)
                    if not left:
                        raise
        whole = merge_chunks([parse_object(data) for data in events if data])
        return Reply(body=orjson.dumps(whole), document=whole, usage=stream.usage, cut=stream.cut)

    def _ignored_schema(self, completion: Completion) -> bool:
        """Return whether `completion` shows that the backend ignores schemas, and remember it."""
        ended = [sample for sample in completion.samples if sample.finish_reason == "stop"]
        ignored = self.features.schema is None and bool(ended) and all(is_no_json(sample.text) for sample in ended)
        if ignored:
            self._learned.learn(Features(schema=False))
        return ignored
