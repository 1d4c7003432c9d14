"""What a trace tells of a model call."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from chassis import telemetry
from inference import CallEnd, Place, WorkKind
from inference.backends import CallMetrics
from kernel.envelope import StageUsage
from tests.support.spans import exported_spans, one_span


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Where the spans of this process go."""
    with exported_spans(monkeypatch) as exporter:
        yield exporter


def ended(outcome: str) -> CallEnd:
    usage = StageUsage(generations=3, http_calls=1, prompt_tokens=40, completion_tokens=12)
    return CallEnd(
        backend="default", model="qwen3", work=WorkKind.STAGE, stage="thesis", seconds=1.5, usage=usage, outcome=outcome
    )


def test_a_model_call_is_a_span_of_the_request_that_made_it(exported: InMemorySpanExporter) -> None:
    with telemetry.span("Deliberate", SpanKind.SERVER):
        CallMetrics().on_call_end(ended("OK"))

    call, request = one_span(exported, "chat qwen3"), one_span(exported, "Deliberate")
    assert call.parent is not None
    assert request.context is not None
    assert call.parent.span_id == request.context.span_id
    assert call.kind is SpanKind.CLIENT
    assert call.start_time is not None
    assert call.end_time is not None
    assert call.end_time - call.start_time == 1_500_000_000
    assert dict(call.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "qwen3",
        "gen_ai.usage.input_tokens": 40,
        "gen_ai.usage.output_tokens": 12,
        "metacog.backend": "default",
        "metacog.work": WorkKind.STAGE,
        "metacog.stage": "thesis",
        "metacog.generations": 3,
    }


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/chat/completions", "chat"),
        ("/completions", "text_completion"),
        ("/embeddings", "embeddings"),
        ("/rerank", "rerank"),
    ],
)
def test_a_span_has_the_name_of_its_operation(exported: InMemorySpanExporter, path: str, operation: str) -> None:
    CallMetrics().on_call_end(replace(ended("OK"), operation=Place(path=path).operation))

    call = one_span(exported, f"{operation} qwen3")
    assert (call.attributes or {})["gen_ai.operation.name"] == operation


def test_a_call_that_failed_states_why(exported: InMemorySpanExporter) -> None:
    CallMetrics().on_call_end(ended("BACKEND_OVERLOADED"))

    call = one_span(exported, "chat qwen3")
    assert call.status.status_code is StatusCode.ERROR
    assert (call.attributes or {})["error.type"] == "BACKEND_OVERLOADED"


def test_nothing_is_made_where_nothing_is_sent(exported: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_sending", False)

    CallMetrics().on_call_end(ended("OK"))

    assert exported.get_finished_spans() == ()
