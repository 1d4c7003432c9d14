"""Logs are structured: one JSON object a line, with the trace it belongs to. Prompts and keys are never logged."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import orjson
import structlog
from opentelemetry import trace

from kernel.errors import without_user_info

Logger = structlog.stdlib.BoundLogger


def configure(service: str, level: str = "INFO") -> None:
    """Send all logging of this process to standard error as JSON lines that name `service`."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_trace,
        structlog.processors.format_exc_info,
        _without_user_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.EventRenamer("message"),
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for noisy in ("httpx", "httpcore", "asyncio", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def logger(name: str) -> Logger:
    """Return the logger of one module."""
    named: Logger = structlog.stdlib.get_logger(name)
    return named


def _with_trace(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = f"{span.trace_id:032x}"
        event["span_id"] = f"{span.span_id:016x}"
    return event


def _without_user_info(_: object, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Take passwords out of the URLs of an event, also of those in the text of an exception."""
    for name, text in event.items():
        if isinstance(text, str):
            event[name] = without_user_info(text)
    return event


def _dumps(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
