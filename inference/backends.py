"""This module builds the models of the suite from the settings, with metrics and traces."""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from chassis import telemetry
from chassis.errors import ConfigurationInvalid
from configuration.models import FROM_SETTINGS, ModelCatalogue, ModelConfig, ModelEndpoint, Models
from configuration.suite import SuiteSettings
from inference.accounting.reports import OK, CallEnd
from inference.backend_client import Backend
from inference.config import BackendConfig, Endpoint
from inference.errors import ModelNotFound
from inference.models import BackendModelClients, backend_config
from kernel.errors import MetacogError
from kernel.prices import price_of

# Name of the backends of models that no file lists, in metrics and messages: callers make these names up.
UNLISTED = "unlisted"


class CallMetrics:
    """Call metrics report every inference call to Prometheus, and to the trace where one is sent."""

    def on_call_end(self, end: CallEnd) -> None:
        """Count a call that has ended."""
        telemetry.child(telemetry.BACKEND_CALLS, end.backend, end.work, end.outcome).inc()
        telemetry.child(telemetry.BACKEND_SECONDS, end.backend, end.work).observe(end.seconds)
        if telemetry.is_sending():
            failure = "" if end.outcome == OK else end.outcome
            telemetry.past_span(f"{end.operation} {end.model}", end.seconds, attributes(end), failure)


def attributes(end: CallEnd) -> dict[str, str | int]:
    """Return the attributes of a model call's span: OpenTelemetry's names for generative AI, and ours; no text."""
    return {
        "gen_ai.operation.name": end.operation,
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


async def suite_models(suite: SuiteSettings, *, max_tokens: int = 1024) -> BackendModelClients:
    """Return the models of the suite: those of `models.yaml`, or the one of the settings where there is no file.

    Without a file and without a model name, it is the first model that the server lists.

    Args:
        suite: The settings.
        max_tokens: Tokens of a forwarded request that states none [count].

    Raises:
        ConfigurationInvalid: When the file cannot be used; or no model is named, and the server cannot list its models.
    """
    if suite.models_file is not None:
        models = Models(suite.models_file)
        most_bytes = suite.inference_max_reply_bytes
        config_of_listed = partial(backend_config, max_tokens=max_tokens, max_reply_bytes=most_bytes)
        return BackendModelClients(models.current, build_backend, config_of_listed, models.check)
    name = suite.inference_model or await _first_model(suite)
    model = ModelConfig(name=name, endpoints=(ModelEndpoint(url=suite.inference_url),))
    catalogue = ModelCatalogue(version=FROM_SETTINGS, models=(model,), names_closed=False)

    def config_of(model: ModelConfig) -> BackendConfig:
        return replace(_config(suite, model.name, default=name), default_max_tokens=max_tokens)

    return BackendModelClients(lambda: catalogue, build_backend, config_of)


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


def _config(suite: SuiteSettings, model: str, *, default: str = "") -> BackendConfig:
    url, key = suite.inference_url, suite.inference_api_key.get_secret_value() or None
    return BackendConfig(
        name=UNLISTED if default not in ("", model) else "default",
        endpoints=(Endpoint(url=url, api_key=key),),
        model=model,
        price=price_of(model, suite.prices),
        max_reply_bytes=suite.inference_max_reply_bytes,
    )


def _unnamed(suite: SuiteSettings, problem: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(
        f"METACOG_INFERENCE_MODEL is not set, and {suite.inference_url} was asked for its models: {problem}",
        setting="METACOG_INFERENCE_MODEL",
    )
