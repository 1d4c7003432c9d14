"""What a caller sends along with its trace stays with the suite: a model server may be somebody else's."""

from pathlib import Path

import httpx
import pytest
from grpc import aio
from metacog.router.v1 import router_pb2, router_pb2_grpc

from tests.support.assigner import assigner_at
from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import cast, router_at

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADERS = {
    "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    "tracestate": "vendor=account-of-ann",
    "baggage": "customer=ann,diagnosis=secret",
}


@pytest.mark.parametrize("strategy", ["system1", "dialectic"])
@pytest.mark.parametrize("api", ["rest", "rpc"])
async def test_a_callers_baggage_and_trace_state_reach_no_model_server_and_its_trace_does(
    scripted: ScriptedLLM, database_url: str, tmp_path: Path, strategy: str, api: str
) -> None:
    scripted.answer = cast()
    async with (
        assigner_at(scripted) as assigner,
        router_at(scripted, database_url, tmp_path, others={"assigner": assigner.grpc}) as router,
    ):
        if api == "rest":
            async with httpx.AsyncClient(base_url=router.rest, headers=HEADERS, timeout=60) as client:
                reply = await client.post("/v1/answers", json={"question": "Is it so?", "strategy": strategy})
            assert reply.json()["run"]["strategy"] == strategy
        else:
            async with aio.insecure_channel(router.grpc) as channel:
                asked = router_pb2.AnswerRequest(question="Is it so?", strategy=strategy)
                stub = router_pb2_grpc.RouterServiceStub(channel)
                _ = [event async for event in stub.Answer(asked, metadata=tuple(HEADERS.items()), timeout=60)]

    sent = [dict(request.headers) for request in scripted.requests]
    assert sent
    assert {headers["traceparent"].split("-")[1] for headers in sent} == {TRACE}
    assert [headers for headers in sent if {"baggage", "tracestate"} & {name.lower() for name in headers}] == []
    assert "secret" not in str(sent)
    assert "account-of-ann" not in str(sent)
