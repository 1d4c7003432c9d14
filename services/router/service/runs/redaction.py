"""Redaction leaves decisions, numbers, names and digests of a run where contents are not stored."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernel.msv import MSV
from kernel.redaction.accounts import bare_name, bare_reason, bare_reasons, without_texts
from services.router.service.assessment.values import RouteResponse
from services.router.service.runs.values import Run

# The fields that stay; every other field has its default.
_OF_RUN = """
    run_id created_at messages_digest envelope request_digest request_id key_name strategy outcome confidence
    confidence_source usage degraded budget_exhausted error_reason duration_ms first_token_ms config_version model
    confidence_raw calibration_version confidence_state confidence_labels idempotency shadow winner_digest
    agreement sampled catalogue_name
"""
_OF_ROUTE = """
    system strategy activation reason config_version assessor usage duration_ms prompt_digests policy_row cached_from
    decided_by gain
"""
OF_RUN, OF_ROUTE = _OF_RUN.split(), _OF_ROUTE.split()


def without_contents(run: Run) -> Run:
    """Return `run` without any word of question or answer; only this reaches the queue, the disk and the database."""
    return Run(
        messages=(),
        route=None if run.route is None else _route(run.route),
        deliberation=None if run.deliberation is None else without_texts(run.deliberation),
        degraded_reasons=[bare_reason(reason) for reason in run.degraded_reasons],
        fallbacks=[replace(fallback, message="") for fallback in run.fallbacks],
        state=None if run.state is None else _msv(run.state),
        finish_reason=bare_name(run.finish_reason),
        escalation=None if run.escalation is None else replace(run.escalation, error=bare_reason(run.escalation.error)),
        promise=None if run.promise is None else replace(run.promise, withheld=""),
        **_only(OF_RUN, run),
    )


def has_contents(run: Run) -> bool:
    """Return whether the conversation of `run` was stored; none has no turn."""
    return bool(run.messages)


def _route(route: RouteResponse) -> RouteResponse:
    return RouteResponse(
        msv=None if route.msv is None else _msv(route.msv),
        kind=bare_name(route.kind),
        kind_unknown_reason=bare_reason(route.kind_unknown_reason),
        **_only(OF_ROUTE, route),
    )


def _msv(msv: MSV) -> MSV:
    return replace(msv, unknown_reasons=bare_reasons(msv.unknown_reasons))


def _only(names: list[str], item: object) -> Mapping[str, Any]:
    return {name: getattr(item, name) for name in names}
