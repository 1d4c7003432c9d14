"""The OpenAPI documents say what the services do."""

import json
from typing import Any

import httpx
import pytest

from configuration.services import SERVICES
from tests.contract.conftest import Served
from tests.support.openapi.described import Described, Reply

STREAMS = {"accept": "text/event-stream"}


@pytest.fixture(params=SERVICES)
def served(request: pytest.FixtureRequest, services: dict[str, Served]) -> Served:
    """Each service in turn."""
    return services[request.param]


@pytest.mark.parametrize("headers", [{}, STREAMS], ids=["whole", "stream"])
async def test_every_listed_operation_is_served_as_it_is_described(served: Served, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=served.running.rest, timeout=60) as client:
        document = (await client.get("/openapi.json")).json()
        replies = [
            await client.request(verb, path.replace("{", "").replace("}", ""), json=body, headers=headers)
            for path, operations in document["paths"].items()
            for verb, operation in operations.items()
            for body in ({}, {"no_such_field": 1}, {"question": "What is 2 + 2?"})
            if body == {} or "requestBody" in operation
        ]

    assert {reply.status_code for reply in replies} & {405, 501} == set()
    assert {reply.json()["reason"] for reply in replies if is_problem(reply)} & {"PATH_NOT_FOUND"} == set()
    described = Described(document)
    assert [mistake for reply in replies for mistake in described.mistakes(sent(reply))] == []


def is_problem(reply: httpx.Response) -> bool:
    return reply.headers["content-type"] == "application/problem+json"


def sent(reply: httpx.Response) -> Reply:
    return Reply(
        verb=reply.request.method,
        path=reply.request.url.path,
        status=reply.status_code,
        media_type=reply.headers["content-type"].partition(";")[0],
        body=reply.content,
    )


DOCUMENT: dict[str, Any] = {
    "paths": {
        "/v1/runs/{run_id}": {
            "get": {
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Run"}}}},
                    "404": {"content": {"application/problem+json": {"schema": {"type": "object"}}}},
                }
            }
        }
    },
    "components": {"schemas": {"Run": {"type": "object", "properties": {"sum": {"type": "number"}}}}},
}


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({}, None),
        ({"status": 404, "media_type": "application/problem+json"}, None),
        ({"status": 500}, "the status is not listed"),
        ({"media_type": "text/plain"}, "the content type is not listed"),
        ({"verb": "PUT"}, "the method is not listed"),
        ({"path": "/v1/tasks"}, "the path is not listed"),
        ({"path": "/v1/tasks", "status": 404}, None),
        ({"body": {"sum": None}}, "sum: null is not of type"),
    ],
)
def test_what_a_document_does_not_say_of_a_reply_is_found(changes: dict[str, Any], mistake: str | None) -> None:
    usual: dict[str, Any] = {
        "verb": "GET",
        "path": "/v1/runs/r-1",
        "status": 200,
        "media_type": "application/json",
        "body": {"sum": 0.5},
    }
    given = usual | changes
    reply = Reply(**given | {"body": json.dumps(given["body"]).encode()})

    found = list(Described(DOCUMENT).mistakes(reply))

    assert len(found) == (mistake is not None)
    assert mistake is None or mistake in found[0]
