"""A client in a container of its own: one gRPC journey, told as JSON on standard output.

python grpc_client.py JOURNEY KEY [WORDS]
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from metacog.arbiter.v1 import arbiter_pb2, arbiter_pb2_grpc
from metacog.assigner.v1 import assigner_pb2, assigner_pb2_grpc
from metacog.common.v1 import answer_pb2, msv_pb2
from metacog.delegation.v1 import delegation_pb2_grpc, monitoring_pb2
from metacog.router.v1 import router_pb2, router_pb2_grpc

TIMEOUT_S = 300
TARGETS = {
    "router": "dns:///router:50051",
    "assigner": "dns:///assigner:50052",
    "arbiter": "dns:///arbiter:50053",
    "delegation": "dns:///delegation:50054",
}


def channel(service: str) -> grpc.Channel:
    """A channel to all replicas of a service, taken in turn."""
    return grpc.insecure_channel(TARGETS[service], options=[("grpc.lb_policy_name", "round_robin")])


def answer(auth: Any, words: str) -> object:  # noqa: ANN401 - gRPC metadata
    """Names of the events of one answer by System 1, and its run."""
    stub = router_pb2_grpc.RouterServiceStub(channel("router"))
    request = router_pb2.AnswerRequest(question=words, strategy="system1", max_tokens=24)
    events = [MessageToDict(reply) for reply in stub.Answer(request, metadata=auth, timeout=TIMEOUT_S)]
    return {"events": [next(iter(event)) for event in events], "last": events[-1]}


def route(auth: Any, _: str) -> object:  # noqa: ANN401
    """A decision on a state that is brought along."""
    msv = msv_pb2.MSV(correctness=0.45, experience=1.0, conflict=0.72, importance=0.85)
    stub = router_pb2_grpc.RouterServiceStub(channel("router"))
    return MessageToDict(stub.Route(router_pb2.RouteRequest(msv=msv), metadata=auth, timeout=30))


def measure(auth: Any, words: str) -> object:  # noqa: ANN401
    """Measures of samples, many times over: who answered is in the replicas' metrics."""
    stub = arbiter_pb2_grpc.ArbiterServiceStub(channel("arbiter"))
    request = arbiter_pb2.MeasureRequest(
        answer_type=answer_pb2.ANSWER_TYPE_NUMBER, solver_answers=["12", "12", "13"], arbiter_answers=["12", "12"]
    )
    seen = Counter(stub.Measure(request, metadata=auth, timeout=30).answer for _ in range(int(words)))
    return dict(seen)


def refused(_: Any, __: str) -> object:  # noqa: ANN401
    """What each service says to a wrong key, and what its health says to anybody."""
    wrong = (("authorization", "Bearer mc-wrong"),)
    calls: dict[str, Callable[[grpc.Channel], object]] = {
        "router": lambda c: router_pb2_grpc.RouterServiceStub(c).ListRuns(
            router_pb2.ListRunsRequest(), metadata=wrong, timeout=10
        ),
        "assigner": lambda c: assigner_pb2_grpc.AssignerServiceStub(c).Assign(
            assigner_pb2.AssignRequest(), metadata=wrong, timeout=10
        ),
        "arbiter": lambda c: arbiter_pb2_grpc.ArbiterServiceStub(c).Measure(
            arbiter_pb2.MeasureRequest(), metadata=wrong, timeout=10
        ),
        "delegation": lambda c: delegation_pb2_grpc.DelegationServiceStub(c).ListAgents(
            monitoring_pb2.ListAgentsRequest(), metadata=wrong, timeout=10
        ),
    }
    told = {}
    for service, call in calls.items():
        try:
            call(channel(service))
            code = "OK"
        except grpc.RpcError as refusal:
            code = refusal.code().name
        health = health_pb2_grpc.HealthStub(channel(service)).Check(health_pb2.HealthCheckRequest(), timeout=10)
        told[service] = {"code": code, "health": health_pb2.HealthCheckResponse.ServingStatus.Name(health.status)}
    return told


JOURNEYS = {"answer": answer, "route": route, "measure": measure, "refused": refused}

if __name__ == "__main__":
    journey, key, words = (*sys.argv[1:], "")[:3]
    told = JOURNEYS[journey]((("authorization", f"Bearer {key}"),), words)
    sys.stdout.write(json.dumps(told) + "\n")
