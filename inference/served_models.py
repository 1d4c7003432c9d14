"""This module fetches the models that the endpoints of one backend list, and caches them for a while."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from inference.config import BackendConfig
from inference.errors import BackendUnavailable, InferenceError, InvalidCall, InvalidReply, ModelNotFound
from inference.http.backend_connection import BackendConnection
from inference.http.error_replies import error_of
from inference.http.transport import MalformedReply, TransportFailure
from inference.json_fields import count_of, object_of, objects_of, parse_object, text_of
from inference.values import ModelInfo

CACHED_S = 60.0
RETRY_AFTER_S = 5.0
MODELS_TIMEOUT_S = 2.0
# As llama.cpp names itself in its list.
LLAMACPP = "llamacpp"

Models = tuple[ModelInfo, ...]


class ServedModels:
    """Served models are those that the endpoints of a backend list.

    llama.cpp answers 200 for a model that it does not have, and ignores a `max_tokens` beyond its context: so both are
    checked here, against its list. An endpoint without a list is trusted; one that lists other models only gets no
    requests until it lists this one.

    Args:
        config: The backend.
        connection: The way to its endpoints.
        clock: Monotonic clock [s].
    """

    def __init__(self, config: BackendConfig, connection: BackendConnection, clock: Callable[[], float]) -> None:
        self._config = config
        self._connection = connection
        self._clock = clock
        self._lock = asyncio.Lock()
        self._models: Models | None = None
        self._good_until = float("-inf")

    async def models(self) -> Models:
        """Fetch the models of all endpoints now, within `MODELS_TIMEOUT_S`; an endpoint that fails is left out.

        Raises:
            BackendUnavailable: When not one endpoint can be reached and is ready.
            InferenceError: When each rejects the request.
        """
        fetched = await self.by_endpoint()
        listed = {place: found for place, found in enumerate(fetched) if not isinstance(found, InferenceError)}
        if not listed:
            raise next(found for found in fetched if isinstance(found, InferenceError))
        wanted = self._config.model
        serving = [place for place, found in listed.items() if not found or _find(found, wanted)]
        if serving:
            self._connection.leave_out(frozenset(listed) - frozenset(serving))
        models = tuple(model for place in (serving or listed) for model in listed[place])
        self._cache(models or None, CACHED_S)
        return models

    async def by_endpoint(self) -> Sequence[Models | InferenceError]:
        """Fetch the models that each endpoint lists, or the error that it gives, in the order of the configuration."""
        async with asyncio.TaskGroup() as group:
            places = range(len(self._config.endpoints))
            fetched = [group.create_task(self._models_at(place)) for place in places]
        return [each.result() for each in fetched]

    async def _models_at(self, place: int) -> Models | InferenceError:
        name, url = self._config.name, self._config.endpoints[place].url
        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                reply = await self._connection.get(place, "/models")
        except MalformedReply as failure:
            return InvalidReply(f"backend {name} sent an invalid list of models from {url}: {failure}", backend=name)
        except (TransportFailure, TimeoutError) as failure:
            reason = str(failure) or f"no answer within {MODELS_TIMEOUT_S:g} s"
            return BackendUnavailable(f"backend {name} cannot be reached at {url}: {reason}", backend=name)
        if reply.status != 200:
            return error_of(name, self._config.model, reply)
        return tuple(_model(entry) for entry in objects_of(parse_object(reply.body).get("data")))

    @property
    def is_fresh(self) -> bool:
        """Return whether the cached models are still valid."""
        return self._clock() < self._good_until

    @property
    def overlooks_lost_clients(self) -> bool:
        """Return whether the backend may go on generating for a client that has disconnected (`gathering`)."""
        return any(model.owner == LLAMACPP for model in self._models or ())

    async def known(self) -> Models | None:
        """Return the models, fetched anew if the cache is too old; None where the backend lists none."""
        if self.is_fresh:
            return self._models
        async with self._lock:
            if not self.is_fresh:
                try:
                    await self.models()
                except InferenceError:
                    # The call itself meets the same failure, and has retries and error names for it.
                    self._cache(self._models, RETRY_AFTER_S)
        return self._models

    async def check(self, max_tokens: int | None) -> int | None:
        """Check that the configured model is served and that `max_tokens` can fit into its context.

        Returns:
            The context [tokens], None where it is unknown.

        Raises:
            ModelNotFound: When the backend lists models, and this is not among them.
            InvalidCall: When the tokens cannot fit, whatever the prompt.
        """
        models = await self.known()
        context = self._config.context_tokens
        if models:
            listed = self._contexts(models)
            context = context or min(listed, default=None)
        if context is not None and max_tokens is not None and max_tokens >= context:
            raise InvalidCall("max_tokens", f"{max_tokens} leave no room for a prompt in the context of {context}")
        return context

    def forget(self) -> None:
        """Forget the models, since the backend contradicted its list; the next call fetches them again."""
        self._good_until = float("-inf")

    def _contexts(self, models: Models) -> Sequence[int]:
        """Return the contexts that the endpoints list for the model [tokens]."""
        wanted = self._config.model
        found = [model for model in models if model.answers_to(wanted)]
        if not found:
            served = ", ".join(sorted({model.id for model in models}))
            raise ModelNotFound(
                f"backend {self._config.name} does not serve {wanted}, but {served}",
                backend=self._config.name,
                model=wanted,
                served=served,
            )
        return [model.context_tokens for model in found if model.context_tokens is not None]

    def _cache(self, models: Models | None, for_s: float) -> None:
        self._models = models
        self._good_until = self._clock() + for_s


def _find(models: Models, name: str) -> ModelInfo | None:
    return next((model for model in models if model.answers_to(name)), None)


def _model(entry: Mapping[str, object]) -> ModelInfo:
    """Return the model that vLLM (`max_model_len`) or llama.cpp (`meta.n_ctx`, per slot) lists."""
    context = count_of(entry.get("max_model_len")) or count_of(object_of(entry.get("meta")).get("n_ctx"))
    aliases = entry.get("aliases")
    names = tuple(map(str, aliases)) if isinstance(aliases, list) else ()
    return ModelInfo(
        id=text_of(entry.get("id")), context_tokens=context, aliases=names, owner=text_of(entry.get("owned_by"))
    )
