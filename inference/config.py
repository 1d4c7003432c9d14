"""This module defines the configuration of a backend: one model, and the endpoints that serve it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from urllib.parse import urlsplit

from inference.features import Features
from inference.values import WorkKind
from kernel.errors import InvalidArgument
from kernel.prices import Price
from kernel.values import value

# vLLM's server closes a connection that was idle for 5 s; a request that is sent in that moment is lost.
SERVER_IDLE_S = 5.0
# Bound on a reply as it is sent; with log-probabilities of 20 alternatives, a token takes some 2,000 bytes [bytes].
MAX_REPLY_BYTES = 64 * 2**20


@value
class PoolSize:
    """A pool size bounds one kind of work on one backend.

    Attributes:
        in_flight: HTTP requests at a time [count, >= 1].
        queue: Requests that may wait for a slot; the next one is rejected [count, >= 0].
    """

    in_flight: int
    queue: int


POOLS: Mapping[WorkKind, PoolSize] = {
    WorkKind.ASSESS: PoolSize(in_flight=64, queue=1024),
    WorkKind.SYSTEM_ONE: PoolSize(in_flight=256, queue=1024),
    WorkKind.STAGE: PoolSize(in_flight=64, queue=1024),
}


@value
class Retries:
    """Retries state when a request is sent again: exponential backoff with full jitter.

    Sent again are requests that found no connection, that were rejected for now (429, 503), or that were lost before a
    reply began. The backend may have answered the last kind, so it counts as spent and is sent again only within the
    envelope.

    Attributes:
        count: Repetitions after the first try [count, >= 0].
        base_s: Upper end of the first pause; it doubles each time [s].
        cap_s: Upper end of every pause [s]. A backend's Retry-After is waited for in addition.
    """

    count: int = 3
    base_s: float = 0.1
    cap_s: float = 2.0


@value
class BreakerSettings:
    """Breaker settings state when a part that keeps failing, such as the encoder, is not called for a while.

    Attributes:
        failures: Failures in a row that open the circuit [count, >= 1].
        cool_down_s: Time until one request may try again [s].
    """

    failures: int = 8
    cool_down_s: float = 5.0


@value
class CircuitSettings:
    """Circuit settings state when an endpoint that fails gets no requests for a while.

    Attributes:
        failures: Requests of the window that must have failed [count, >= 1].
        window_s: How far back failures count [s].
        cool_down_s: Time until the server of an open circuit is probed, and between probes of one that is closed [s].
        probe_s: Time that the server has to answer a probe [s].
    """

    failures: int = 8
    window_s: float = 60.0
    cool_down_s: float = 5.0
    probe_s: float = 2.0


@value
class Endpoint:
    """An endpoint is one server of a backend.

    Attributes:
        url: http(s) URL; with no path, `/v1` is added, as OpenAI's clients write it.
        api_key: Sent as a bearer token; never shown.
        weight: Share of the requests, in proportion to the other endpoints' [> 0].
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    weight: float = 1.0

    @property
    def api_root(self) -> str:
        """Return the URL that `/chat/completions` and `/models` are under."""
        root = self.url.rstrip("/")
        return root if urlsplit(root).path else root + "/v1"

    @property
    def server_root(self) -> str:
        """Return the URL that what is no part of OpenAI's API is under: the API's root without its version."""
        return self.api_root.removesuffix("/v1")


@value
class BackendConfig:
    """A backend configuration states where one model is served and how it may be used.

    Attributes:
        name: Name in logs, metrics and errors.
        endpoints: Its servers; several are replicas of each other.
        model: Name of the model, as the servers know it.
        price: Price of the model's tokens; None where it is not known, and no cost can be reported or limited.
        pools: Bounds per kind of work; what is left out has `POOLS`.
        features: Its abilities, as far as they are stated; the others are learned.
        context_tokens: The model's context; None takes what the backend lists [tokens].
        default_max_tokens: Bound of a forwarded request that states none [tokens].
        connect_timeout_s: Bound on connecting [s, > 0].
        idle_timeout_s: When an idle connection is closed [s, > 0 and < 5].
        max_reply_bytes: Bound on a reply, whole or streamed [bytes, >= 1].
        priorities: vLLM's request priority per kind of work (lower goes first); sent only where there is one, since
            a server without `--scheduling-policy priority` rejects it.
        thinking_on: Fields that switch reasoning on.
        thinking_off: Fields that switch reasoning off.

    Raises:
        InvalidArgument: On construction, for an unusable URL or timeout.
    """

    name: str
    endpoints: Sequence[Endpoint]
    model: str
    price: Price | None = None
    pools: Mapping[WorkKind, PoolSize] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    context_tokens: int | None = None
    default_max_tokens: int = 1024
    connect_timeout_s: float = 2.0
    idle_timeout_s: float = 4.0
    max_reply_bytes: int = MAX_REPLY_BYTES
    retries: Retries = field(default_factory=Retries)
    circuit: CircuitSettings = field(default_factory=CircuitSettings)
    priorities: Mapping[WorkKind, int] = field(default_factory=dict)
    thinking_on: Mapping[str, object] = field(
        default_factory=lambda: {"chat_template_kwargs": {"enable_thinking": True}}
    )
    thinking_off: Mapping[str, object] = field(
        default_factory=lambda: {"chat_template_kwargs": {"enable_thinking": False}}
    )

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise InvalidArgument(f"backend {self.name}: it needs an endpoint", field="endpoints")
        for endpoint in self.endpoints:
            parts = urlsplit(endpoint.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidArgument(
                    f"backend {self.name}: the endpoint {endpoint.url!r} is no http or https URL", field="endpoints"
                )
            if not endpoint.weight > 0:
                raise InvalidArgument(
                    f"backend {self.name}: the weight of {endpoint.url} is {endpoint.weight}; it must be above 0",
                    field="endpoints",
                )
        if not 0.0 < self.idle_timeout_s < SERVER_IDLE_S:
            raise InvalidArgument(
                f"backend {self.name}: idle_timeout_s is {self.idle_timeout_s}; it must be above 0 and below "
                f"{SERVER_IDLE_S:g}, when servers close idle connections",
                field="idle_timeout_s",
            )

    def pool(self, work: WorkKind) -> PoolSize:
        """Return the bounds of `work`."""
        return self.pools.get(work, POOLS[work])
