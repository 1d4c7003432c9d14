"""This module builds the suite's default backend from the settings."""

from contextlib import suppress
from dataclasses import replace

from chassis import telemetry
from chassis.errors import ConfigurationInvalid
from configuration.suite import SuiteSettings
from inference.accounting.reports import OK, CallEnd
from inference.backend_client import Backend
from inference.config import BackendConfig
from inference.errors import ModelNotFound
from kernel.errors import MetacogError
from kernel.prices import price_of


class CallMetrics:
    """Call metrics report every inference call to Prometheus, and to the trace where one is sent."""

    def on_call_end(self, end: CallEnd) -> None:
        """Count a call that has ended."""
        telemetry.child(telemetry.BACKEND_CALLS, end.backend, end.work, end.outcome).inc()
        telemetry.child(telemetry.BACKEND_SECONDS, end.backend, end.work).observe(end.seconds)
        if telemetry.is_sending():
            failure = "" if end.outcome == OK else end.outcome
            telemetry.past_span(f"chat {end.model}", end.seconds, attributes(end), failure)


def attributes(end: CallEnd) -> dict[str, str | int]:
    """Return the attributes of a model call's span: OpenTelemetry's names for generative AI, and ours; no text."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # whose protocol it speaks
        "gen_ai.request.model": end.model,
        "gen_ai.usage.input_tokens": end.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": end.usage.completion_tokens,
        "metacog.backend": end.backend,
        "metacog.work": end.work,
        "metacog.stage": end.stage,
        "metacog.generations": end.usage.generations,
    }


def build_backend(config: BackendConfig) -> Backend:
    """Return a backend that reports metrics and carries the trace."""
    return Backend(config, observer=CallMetrics(), headers=telemetry.trace_headers)


async def default_backend(suite: SuiteSettings, *, max_tokens: int = 1024) -> Backend:
    """Return the backend of the settings; without a model name, the first model that it lists.

    Args:
        suite: The settings.
        max_tokens: Tokens of a forwarded request that states none [count].

    Raises:
        ConfigurationInvalid: When no model is named and the backend cannot list its models.
    """
    model = suite.inference_model or await _first_model(suite)
    return build_backend(replace(_config(suite, model), default_max_tokens=max_tokens))


async def _first_model(suite: SuiteSettings) -> str:
    backend = build_backend(_config(suite, "unnamed"))
    try:
        with suppress(ModelNotFound):  # it answers, and has other models than `unnamed`
            await backend.probe()
        listed = await backend.models()
    except MetacogError as error:
        raise _unnamed(suite, error.message) from error
    finally:
        await backend.aclose()
    if not listed:
        raise _unnamed(suite, "it lists none")
    return listed[0].id


def _config(suite: SuiteSettings, model: str) -> BackendConfig:
    key = suite.inference_api_key.get_secret_value() or None
    price = price_of(model, suite.prices)
    return BackendConfig(name="default", base_url=suite.inference_url, model=model, api_key=key, price=price)


def _unnamed(suite: SuiteSettings, problem: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(
        f"METACOG_INFERENCE_MODEL is not set, and {suite.inference_url} was asked for its models: {problem}",
        setting="METACOG_INFERENCE_MODEL",
    )
