"""The delegation service is asked for the agents' experience, over gRPC."""

from collections.abc import Sequence
from dataclasses import dataclass

from metacog.delegation.v1 import delegation_pb2_grpc, experience_pb2

from chassis.serving.peer import Peer
from chassis.serving.wire import from_proto
from kernel.errors import MetacogError
from services.assigner.service.values import KnownAgentExperience, KnownExperience


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationExperience:
    """This source asks delegation for the experience of agents.

    Attributes:
        peer: The delegation service.
        timeout_s: Time that its reply may take, inside the request's own [s, > 0].
    """

    peer: Peer
    timeout_s: float

    async def __call__(self, text: str, agents: Sequence[str], *, timeout_s: float) -> KnownExperience:
        """Return what is known of the experience of `agents`; unknown, with the reason, where delegation is away."""
        stub = delegation_pb2_grpc.DelegationServiceStub(self.peer.channel)
        request = experience_pb2.MatchExperienceRequest(question=text, agents=agents)
        try:
            reply = await self.peer.call(
                stub.MatchExperience, request, timeout_s=max(0.001, min(timeout_s, self.timeout_s))
            )
        except MetacogError as error:
            return KnownExperience(unknown_reason=f"{error.reason}: {error.message}")
        return KnownExperience(agents=[from_proto(each, KnownAgentExperience) for each in reply.agents])
