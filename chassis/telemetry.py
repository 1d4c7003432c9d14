"""Every service has metrics and traces: Prometheus always, OpenTelemetry where a collector is configured."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import Counter, Gauge, Histogram

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

REQUESTS = Counter("metacog_requests_total", "Requests by API, operation and canonical code.", ["api", "op", "code"])
REQUEST_SECONDS = Histogram("metacog_request_seconds", "Time to answer a request [s].", ["api", "op"], buckets=SECONDS)
IN_FLIGHT = Gauge("metacog_requests_in_flight", "Requests being answered now.", ["api"])
EVENT_LOOP_TASKS = Gauge("metacog_event_loop_tasks", "Tasks of the event loop that are not done.")
STAGE_SECONDS = Histogram("metacog_stage_seconds", "Time of one stage [s].", ["stage"], buckets=SECONDS)
TOKENS = Counter("metacog_tokens_total", "Tokens by stage and kind (prompt, completion).", ["stage", "kind"])
COST = Counter("metacog_cost_total", "Cost by stage, where it is known [currency of METACOG_PRICES].", ["stage"])
GENERATIONS = Counter("metacog_generations_total", "Samples drawn by stage.", ["stage"])
BACKEND_CALLS = Counter("metacog_backend_calls_total", "Inference calls by outcome.", ["backend", "work", "outcome"])
BACKEND_SECONDS = Histogram(
    "metacog_backend_seconds", "Time of one inference call [s].", ["backend", "work"], buckets=SECONDS
)

# The header in which a caller passes its trace on. What else W3C lets a caller send along, `tracestate` and `baggage`,
# may hold anything, is of no use to the suite and would go on to model servers that others run: it is not read.
TRACE_FIELD = "traceparent"
TRACE_FIELDS = frozenset({TRACE_FIELD.encode()})

M = TypeVar("M", Counter, Gauge, Histogram)

_propagator = TraceContextTextMapPropagator()
_tracer = trace.get_tracer("metacog")
_sending = False


@cache
def child(metric: M, *labels: str) -> M:
    """Return the part of `metric` under these labels; looked up once, since the lookup costs more than the counting."""
    return metric.labels(*labels)


def configure(service: str, otlp_endpoint: str) -> None:
    """Send traces of this process to `otlp_endpoint` [host:port or URL]; with an empty one, nothing is sent."""
    if not otlp_endpoint:
        return
    global _sending
    provider = TracerProvider(resource=Resource.create({"service.name": f"metacog-{service}"}))
    exporter = OTLPSpanExporter(endpoint=otlp_endpoint, insecure=not otlp_endpoint.startswith("https"))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    _sending = True


def flush() -> None:
    """Send what is still queued."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@contextmanager
def span(name: str, kind: SpanKind = SpanKind.INTERNAL, carrier: Mapping[str, str] | None = None) -> Iterator[Span]:
    """Return a span around a piece of work; with `carrier` it continues the caller's trace."""
    known = {TRACE_FIELD: carrier[TRACE_FIELD]} if carrier and TRACE_FIELD in carrier else None
    caller = _propagator.extract(known) if known else None
    with _tracer.start_as_current_span(name, context=caller, kind=kind, record_exception=False) as opened:
        yield opened


def past_span(name: str, seconds: float, attributes: Mapping[str, str | int], failure: str = "") -> None:
    """Add a span of the current trace around a call to another system that has just ended.

    Args:
        name: What was called.
        seconds: How long it took [s].
        attributes: Attributes of the span.
        failure: Reason of its failure; empty when it succeeded.
    """
    ended = time.time_ns()
    opened = _tracer.start_span(
        name, kind=SpanKind.CLIENT, attributes=dict(attributes), start_time=ended - round(seconds * 1e9)
    )
    if failure:
        opened.set_attribute("error.type", failure)
        opened.set_status(StatusCode.ERROR, failure)
    opened.end(ended)


def is_sending() -> bool:
    """Return whether traces are sent; if not, there is a span only inside a caller's trace, which is passed on."""
    return _sending


def trace_headers() -> dict[str, str]:
    """Return headers that let the next process continue the current trace; none outside of one."""
    carrier: dict[str, str] = {}
    if not context.get_current():
        return carrier
    _propagator.inject(carrier)
    return carrier
