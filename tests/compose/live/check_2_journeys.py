"""What people do with the suite: through the published port with the stock client, and over gRPC from a container."""

import json

import pytest
from openai import NotFoundError, OpenAI

from tests.compose.live.suite import ARBITERS, ENCODER, MODEL_SERVER, OURS, SECRETS, Suite, awaited, samples, total

# In every prompt, and so in no log.
MARK = "zanzibar8841"
SMALL = {"envelope": {"max_generations": 24, "max_generated_tokens": 480, "timeout_ms": 420_000}}


def ask(openai: OpenAI, model: str, words: str, **extra: object) -> dict[str, object]:
    """The `metacog` object of one answer, whose text must not be empty."""
    answer = openai.chat.completions.create(
        model=model, messages=[{"role": "user", "content": f"{words} ({MARK})"}], max_tokens=24, extra_body=extra
    )
    assert answer.choices[0].message.content
    told: dict[str, object] = (answer.model_extra or {})["metacog"]
    return told


def test_the_models_are_listed_and_an_unknown_one_is_openais_404(openai: OpenAI) -> None:
    listed = {model.id for model in openai.models.list()}

    assert {"metacog", "metacog/system1", "metacog/dialectic", "metacog/arbiter", "metacog/delegation"} <= listed
    with pytest.raises(NotFoundError):
        ask(openai, "nobody", "Hello")


def test_system_one_answers_and_its_run_is_recorded(suite: Suite, openai: OpenAI) -> None:
    told = ask(openai, "metacog/system1", "Say hello")

    assert told["system"] == "SYSTEM_ONE"
    assert awaited(lambda: suite.recorded(str(told["run_id"])), 30, "the run is recorded")


def test_system_one_streams_chunk_by_chunk(openai: OpenAI) -> None:
    stream = openai.chat.completions.create(
        model="metacog/system1",
        messages=[{"role": "user", "content": f"Count to twenty ({MARK})"}],
        max_tokens=24,
        stream=True,
    )
    chunks = list(stream)

    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) > 3
    assert (chunks[-1].model_extra or {})["metacog"]["run_id"]


def test_the_router_decides_for_itself(openai: OpenAI) -> None:
    told = ask(openai, "metacog", "Is 91 a prime number?", metacog=SMALL)

    assert told["system"] in ("SYSTEM_ONE", "SYSTEM_TWO")
    assert told["activation"]


@pytest.mark.parametrize("strategy", ["dialectic", "arbiter", "delegation"])
def test_system_two_answers_through_its_own_service(openai: OpenAI, strategy: str) -> None:
    told = ask(openai, f"metacog/{strategy}", "Is 91 a prime number?", metacog=SMALL)

    assert told["system"] == "SYSTEM_TWO"
    assert told["strategy"] == strategy  # and no other stood in for it


def test_grpc_from_another_container_answers_and_routes(suite: Suite) -> None:
    answered = suite.client("answer", f"Say hello ({MARK})")
    routed = suite.client("route")

    assert answered["events"][0] == "runStarted"
    assert answered["events"][-1] == "runFinished"
    assert routed["system"] == "ROUTE_SYSTEM_TWO"
    assert routed["activation"]["value"] == pytest.approx(0.5575)


@pytest.mark.parametrize("encoder", ENCODER)
def test_knowledge_goes_in_and_is_found_by_meaning(suite: Suite, encoder: str) -> None:
    assert suite.is_healthy(encoder)
    owls = {"title": "Owls", "text": "Owls hunt mice at night."}

    added = suite.asked("POST", "/v1/knowledge", json={"documents": [owls]})
    found = suite.asked("POST", "/v1/knowledge:search", json={"query": "What do owls eat?"})

    assert added.status_code == 200, added.text
    assert "mice" in json.dumps(found.json())


def test_grpc_is_balanced_over_all_replicas(suite: Suite) -> None:
    before = [total([page], "metacog_requests_total") for page in suite.metrics("arbiter", 8082)]

    told = suite.client("measure", "60")

    after = [total([page], "metacog_requests_total") for page in suite.metrics("arbiter", 8082)]
    shares = [int(late - early) for early, late in zip(before, after, strict=True)]
    suite.said["60 gRPC calls over arbiters"] = str(shares)
    assert told == {"12": 60}
    assert len(shares) == ARBITERS
    assert all(share >= 60 // ARBITERS // 2 for share in shares)


def test_logs_hold_neither_keys_nor_prompts(suite: Suite) -> None:
    secrets = {name: suite.secret(name) for name in SECRETS}
    services = [*OURS, *ENCODER, "postgres", MODEL_SERVER]

    logs = {service: suite.logs(service) for service in services}

    assert all(logs[service] for service in OURS)
    for service, said in logs.items():
        assert MARK not in said, service
        assert suite.key not in said, service
        assert [name for name, secret in secrets.items() if secret in said] == [], service


def test_the_metrics_page_is_one_that_prometheus_reads(suite: Suite) -> None:
    page = samples(suite.asked("GET", "/metrics").text)

    assert total([page], "metacog_runs_total") >= 5
