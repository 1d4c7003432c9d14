"""Each container is killed under load: what was answered is found afterwards, and it comes back by itself."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from openai import APIError, OpenAI

from tests.compose.live.suite import CONSOLE_URL, ENCODER, MODEL_SERVER, READY_WITHIN_S, Suite, awaited, total

WATCHING = ("otel-collector", "prometheus")
KILLED = ("assigner", "arbiter", "delegation", "postgres", *ENCODER, "console", *WATCHING, "router", MODEL_SERVER)
WARM_UP_ANSWERS = 3
# Without the encoder, what was right waits in the outbox for its vector.
DELIVERED = ("metacog_outbox_pending",) if ENCODER else ()
ENVELOPE = {"max_generations": 16, "max_generated_tokens": 240, "timeout_ms": 120_000}


@dataclass
class Load:
    """Requests one after the other: one line of System 1, one of System 2 by turns, each labelled as well.

    Attributes:
        runs: Run of each answer that a client got, with when it got it.
        labelled: Runs whose label was accepted.
        failed: Failures by kind.
        degraded: Answers that another strategy gave.
    """

    suite: Suite
    openai: OpenAI
    runs: dict[str, float] = field(default_factory=dict)
    labelled: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    degraded: int = 0
    ending: threading.Event = field(default_factory=threading.Event)

    def line(self, models: tuple[str, ...]) -> None:
        """Ask until the end."""
        turn = 0
        while not self.ending.is_set():
            try:
                self.one(models[turn % len(models)])
            except (APIError, httpx.HTTPError) as error:
                status = getattr(error, "status_code", None) or type(error).__name__
                self.failed[f"{models[turn % len(models)]}: {status}"] += 1
                self.ending.wait(0.2)
            turn += 1

    def one(self, model: str) -> None:
        """Request one answer and label it."""
        answer = self.openai.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Is 7 a prime number?"}],
            max_tokens=8,
            extra_body={} if model == "metacog/system1" else {"metacog": {"envelope": ENVELOPE}},
        )
        reported = (answer.model_extra or {})["metacog"]
        self.runs[reported["run_id"]] = time.monotonic()
        self.degraded += bool(reported["degraded"])
        label = {"feedback_id": str(uuid.uuid4()), "run_id": reported["run_id"], "score": 1.0}
        if self.suite.asked("POST", "/v1/feedback", json=label).status_code == 200:
            self.labelled.append(reported["run_id"])

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Keep asking meanwhile."""
        lines = (("metacog/system1",), ("metacog/dialectic", "metacog/arbiter", "metacog/delegation"))
        threads = [threading.Thread(target=self.line, args=(models,)) for models in lines]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.ending.set()
            for thread in threads:
                thread.join()


def is_back(suite: Suite, service: str, killed: str, restarts: int) -> bool:
    """Whether Docker has started the container again, it is ready, and System 1 answers."""
    state = suite.inspected(killed)
    if state["RestartCount"] <= restarts or not state["State"]["Running"]:
        raise LookupError(f"{service} has not been started again")
    if service == "console":
        return httpx.get(f"{CONSOLE_URL}/readyz", timeout=5).status_code == 200
    if service == "prometheus":
        return suite.is_healthy(service)
    parts = suite.ready()
    named = {"postgres": "database", MODEL_SERVER: "inference"}.get(service, service)
    return all(parts[part] == "ok" for part in {named, "inference"} - {"router", *WATCHING})


@pytest.mark.parametrize("service", KILLED)
def test_a_killed_container_comes_back_and_nothing_that_was_answered_is_lost(
    suite: Suite, openai: OpenAI, service: str
) -> None:
    awaited(suite.is_well, READY_WITHIN_S, "the suite is well before")
    with Load(suite, openai).running() as load:
        awaited(lambda: len(load.runs) >= WARM_UP_ANSWERS, 300, "the load runs")
        restarts = suite.inspected(suite.container(service))["RestartCount"]
        began = time.monotonic()
        killed = suite.crash(service)
        awaited(lambda: is_back(suite, service, killed, restarts), READY_WITHIN_S, f"{service} is back")
        took = time.monotonic() - began
        since = len(load.runs)
        awaited(lambda: len(load.runs) >= since + WARM_UP_ANSWERS, 300, "answers are given again")

    awaited(suite.is_well, READY_WITHIN_S, "the suite is well afterwards")
    missing = awaited_runs(suite, load)
    suite.said[f"{service} killed"] = (
        f"back after {took:.1f} s; {len(load.runs)} answered ({load.degraded} degraded), {len(missing)} not found, "
        f"{len(load.labelled)} labels; failed meanwhile: {dict(load.failed) or 'none'}"
    )
    assert missing == []
    assert delivered_all(suite)


def awaited_runs(suite: Suite, load: Load) -> list[str]:
    """Runs that a client was answered with and that cannot be found, though they are waited for."""

    def missing() -> list[str]:
        return [run for run in load.runs if suite.asked("GET", f"/v1/runs/{run}").status_code != 200]

    until = time.monotonic() + 30
    while (left := missing()) and time.monotonic() < until:
        time.sleep(1)
    return left


def delivered_all(suite: Suite) -> bool:
    """Return whether all feedback has been delivered, none was set aside and no run was given up."""

    def done() -> bool:
        pages = suite.metrics("router", 8080)
        left = {
            name: total(pages, name)
            for name in (*DELIVERED, "metacog_outbox_parked_total", "metacog_journal_lost_total")
        }
        if any(left.values()):
            raise LookupError(str(left))
        return True

    return awaited(done, 360, "all feedback is delivered")


def test_a_stream_under_way_ends_well_when_the_router_is_stopped(suite: Suite, openai: OpenAI) -> None:
    stream = openai.chat.completions.create(
        model="metacog/system1",
        messages=[{"role": "user", "content": "Tell me a long story about a lighthouse."}],
        max_tokens=160,
        stream=True,
    )
    chunks = [next(stream)]
    stopping = threading.Thread(target=suite.compose, args=("stop", "router"))
    stopping.start()
    chunks += list(stream)
    stopping.join()

    finished = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    run = (chunks[-1].model_extra or {})["metacog"]["run_id"]
    suite.up("router")
    awaited(suite.is_well, READY_WITHIN_S, "the router is back")
    assert finished[-1] in ("stop", "length")
    assert awaited(lambda: suite.recorded(run), 30, "its run is recorded")
    suite.said["router stopped in a stream"] = f"{len(chunks)} chunks, finished: {finished[-1]}, its run is recorded"
