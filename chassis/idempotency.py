"""TODO docstring."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import fields
from chassis.errors import DatabaseUnavailable
from chassis.log import logger
from inference.spend import Spend
from kernel.errors import Code, MetacogError
from services.router.service.answering.values import AnswerToken, Event, RunFinished, RunStarted
from services.router.service.assessment.values import Routed
from services.router.service.runs.redaction import has_contents
from services.router.service.runs.values import Run


class RequestIdReused(MetacogError):
    """A request identifier came back with another request."""

    code = Code.ALREADY_EXISTS
    reason = "REQUEST_ID_REUSED"


class RequestInProgress(MetacogError):
    """The first request with an identifier had not ended when its repetition had to."""

    code = Code.ABORTED
    reason = "REQUEST_IN_PROGRESS"
