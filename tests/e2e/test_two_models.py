"""Votes of two real models on two servers, asked for with the stock client: one server freezes, and one is killed."""

import json
import os
import signal
import struct
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import Suite, suite_at
from tests.e2e.test_suite import eventually, fetch, run_python
from tests.support.models.llama import Llama, llama_server
from tests.support.stack import free_port

pytestmark = pytest.mark.timeout(300)

ROPE_BASE = b"llama.rope.freq_base"
TYPE_BYTES = 4
SLOTS: Any = {"parallel": 4, "context_tokens": 8192}

# A sentence of the model's words may hold no answer, so that a vote may abstain: no error either.
VOTE = """
import json
from openai import OpenAI
client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="unused", timeout=200, max_retries=0)
asked = {"model": "metacog/vote", "max_tokens": 32, "seed": 1,
         "messages": [{"role": "user", "content": "Is water wet?"}],
         "extra_body": {"metacog": {"answer_type": "BOOLEAN", "fallback": False, "envelope": {"timeout_ms": 60000},
                        "vote": {"sources": [{"model": "other"}, {"model": "small"}], "agree": 3, "most": 5}}}}
if STREAMED:
    chunks = list(client.chat.completions.create(stream=True, **asked))
    metacog = [chunk.metacog for chunk in chunks if getattr(chunk, "metacog", None)][-1]
else:
    metacog = client.chat.completions.create(**asked).metacog
print(json.dumps(metacog))
"""


@dataclass(frozen=True)
class TwoModels:
    """A suite with two models, each on a server of its own; `small` is the default, which writes the drafts."""

    suite: Suite
    small: Llama
    other: Llama

    def vote(self, *, streamed: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the stock client got beside the answer, and the vote's own account."""
        explained = json.loads(run_python(self.suite, VOTE.replace("STREAMED", str(streamed))))
        router = self.suite.url("METACOG_ROUTER_REST_PORT")
        return explained, fetch(f"{router}/v1/runs/{explained['run_id']}")["run"]["deliberation"]

    def answers(self, model: str) -> bool:
        """Whether a model answers by its own name."""
        body = {"model": model, "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}
        request = urllib.request.Request(
            f"{self.suite.url('METACOG_ROUTER_REST_PORT')}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60):
                return True
        except urllib.error.HTTPError:
            return False


def other_model(model_file: Path, path: Path) -> Path:
    """Another model of the same size: the small one, with positions encoded on another base, gives other answers."""
    content = bytearray(model_file.read_bytes())
    at = content.index(ROPE_BASE) + len(ROPE_BASE) + TYPE_BYTES
    struct.pack_into("<f", content, at, struct.unpack_from("<f", content, at)[0] / 2)
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mc-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def other_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def with_small(model_file: Path, home: Path, other_port: int) -> Iterator[tuple[Suite, Llama]]:
    """The suite, and the server of the default model; that of the other one is a test's own."""
    with llama_server(model_file, alias="small", **SLOTS) as small:
        urls = {"small": f"{small.url}/v1", "other": f"http://127.0.0.1:{other_port}/v1"}
        models = [{"name": name, "endpoints": [{"url": url}]} for name, url in urls.items()]
        (home / "models.yaml").write_text(yaml.safe_dump({"default": "small", "models": models}))
        with suite_at(home, "--models", str(home / "models.yaml")) as suite:
            yield suite, small


@pytest.fixture
def two_models(model_file: Path, home: Path, other_port: int, with_small: tuple[Suite, Llama]) -> Iterator[TwoModels]:
    path = home / "other.gguf"
    file = path if path.exists() else other_model(model_file, path)
    with llama_server(file, alias="other", port=other_port, **SLOTS) as other:
        both = TwoModels(*with_small, other)
        for model in ("small", "other"):
            eventually(partial(both.answers, model), f"an answer of {model}")
        yield both


def left_out(explained: dict[str, Any]) -> list[str]:
    return [reason for reason in explained["degraded_reasons"] if reason.startswith("SOURCE_LEFT_OUT")]


def voters(account: dict[str, Any]) -> set[str]:
    """Models that answered."""
    return {vote["source_model"] or vote["model"] for vote in account["votes"] if vote["text"]}


def counter(server: Llama, name: str) -> float:
    """A figure of a server."""
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"llamacpp:{name} "))


whole_and_streamed = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@whole_and_streamed
def test_two_models_vote(two_models: TwoModels, *, streamed: bool) -> None:
    explained, account = two_models.vote(streamed=streamed)

    assert (explained["strategy"], left_out(explained)) == ("vote", [])
    assert voters(account) == {"small", "other"}
    assert account["stop_reason"] in {"AGREED", "MOST_ASKED", "OUT_OF_REACH"}
    assert explained["confidence_state"] == (None if account["outcome"] == "ABSTAINED" else "PRIOR")


@whole_and_streamed
def test_votes_go_on_while_the_server_of_the_draft_is_frozen(two_models: TwoModels, *, streamed: bool) -> None:
    os.kill(two_models.small.pid, signal.SIGSTOP)
    try:
        explained, account = two_models.vote(streamed=streamed)
    finally:
        os.kill(two_models.small.pid, signal.SIGCONT)

    assert explained["strategy"] == "vote"
    assert left_out(explained)[0].startswith("SOURCE_LEFT_OUT: draft:")
    assert voters(account) == {"other"}


@whole_and_streamed
def test_votes_go_on_when_a_server_is_killed_half_way(two_models: TwoModels, *, streamed: bool) -> None:
    written = counter(two_models.small, "tokens_predicted_total")
    # It takes its request and cannot answer it before it is killed.
    os.kill(two_models.other.pid, signal.SIGSTOP)

    def has_draft() -> bool:
        is_written = counter(two_models.small, "tokens_predicted_total") > written
        return is_written and not counter(two_models.small, "requests_processing")

    with ThreadPoolExecutor(1) as worker:
        asked = worker.submit(two_models.vote, streamed=streamed)
        try:
            eventually(has_draft, "the draft")
        finally:
            os.kill(two_models.other.pid, signal.SIGKILL)
        explained, account = asked.result()

    assert explained["strategy"] == "vote"
    assert [reason.split(":")[1].strip() for reason in left_out(explained)] == ["model other reasoned"]
    assert voters(account) == {"small"}
    assert len(account["votes"]) > 2
