"""These values are the requests and responses of assessing and routing; field names are the contract's."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from chassis.serving.wire import Seed
from kernel.activation import Activation, Route
from kernel.conversation import Turn
from kernel.envelope import Envelope, Usage
from kernel.msv import MSV
from kernel.values import value
from services.router.core.decision_rules import DecisionRule


@value
class AssessRequest:
    """This request asks for the state of `question`, or of the last turn of `messages`."""

    question: str = ""
    messages: Sequence[Turn] = ()
    envelope: Envelope | None = None
    seed: Seed | None = None
    assessor: str = ""


@value
class AssessResponse:
    """This response holds the state of a question."""

    msv: MSV
    assessor: str
    prompt_digests: Mapping[str, str]
    usage: Usage
    duration_ms: float
    draft: str = ""
    samples: Sequence[str] = ()


@value
class RouteRequest:
    """This request asks for the choice of system; with a given state no model is called."""

    msv: MSV | None = None
    question: str = ""
    messages: Sequence[Turn] = ()
    strategy: str = ""
    envelope: Envelope | None = None
    seed: Seed | None = None
    assessor: str = ""


@value
class KindGain:
    """This value says how much more often System 2 is right on one kind of question, and when that is enough."""

    labels: int
    system_one: float
    system_two: float
    gain: float
    shrunk: float
    minimum: float


@value
class RouteResponse:
    """This response holds the choice of system, with its reason."""

    system: Route
    strategy: str
    activation: Activation | None
    msv: MSV | None
    reason: str
    config_version: str
    assessor: str
    usage: Usage
    duration_ms: float
    prompt_digests: Mapping[str, str] = field(default_factory=dict)
    policy_row: str = ""
    cached_from: str = ""
    draft: str = ""
    samples: Sequence[str] = ()
    kind: str = ""
    kind_unknown_reason: str = ""
    decided_by: DecisionRule | None = None
    gain: KindGain | None = None


@value
class Routed(RouteResponse):
    """This event reports that the question is assessed and the system chosen."""
