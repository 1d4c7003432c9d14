"""The spans of this process, as a collector gets them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from chassis import telemetry


@contextmanager
def exported_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Give what the spans of this process are sent to."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("metacog"))
    monkeypatch.setattr(telemetry, "_sending", True)
    yield exporter
    provider.shutdown()


def one_span(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    """Return the one span of this name."""
    [found] = [span for span in exporter.get_finished_spans() if span.name == name]
    return found
