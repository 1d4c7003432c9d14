"""Journeys through the whole suite, with every real part."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from metacog.router.v1 import router_pb2, router_pb2_grpc

from tests.e2e.conftest import Suite

pytestmark = pytest.mark.timeout(300)


def run_python(suite: Suite, code: str) -> str:
    """What `code` prints, run as a client of the suite."""
    ran = subprocess.run(
        [sys.executable, "-c", suite.relocated(code)],
        env=suite.environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def fetch(url: str) -> dict[str, Any]:
    """JSON at `url`."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        read: dict[str, Any] = json.loads(reply.read())
    return read


def eventually(true: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, f"{what} did not come true within {within_s} s"
        time.sleep(0.1)


def test_a_run_is_recorded_and_explains_its_answer(suite: Suite) -> None:
    router = suite.url("METACOG_ROUTER_REST_PORT")
    body = {"model": "metacog/system1", "messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8}
    request = urllib.request.Request(
        f"{router}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        answer = json.loads(reply.read())
    run_id = answer["metacog"]["run_id"]

    eventually(lambda: run_id in [run["run_id"] for run in fetch(f"{router}/v1/runs")["runs"]], "the record", 10)
    run = fetch(f"{router}/v1/runs/{run_id}")["run"]

    assert run["answer"] == answer["choices"][0]["message"]["content"]
    assert run["usage"]["generations"] == 1
    assert run["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]


def test_the_same_dialectic_comes_over_grpc(suite: Suite) -> None:
    address = f"127.0.0.1:{suite.ports['METACOG_ROUTER_GRPC_PORT']}"
    request = router_pb2.AnswerRequest(
        question="Is water wet?", strategy="dialectic", stage_max_tokens=16, max_tokens=16
    )
    with grpc.insecure_channel(address) as channel:
        stub = router_pb2_grpc.RouterServiceStub(channel)
        events = list(stub.Answer(request, timeout=200))

    finished = [event.stage_finished.stage for event in events if event.WhichOneof("event") == "stage_finished"]
    run = events[-1].run_finished.run
    assert finished[:4] == [1, 2, 3, 4]
    assert run.usage.completion_tokens == sum(spent.completion_tokens for spent in run.usage.stages.values())


def test_a_vote_of_the_real_model_comes_to_the_stock_client_streamed_and_not(suite: Suite) -> None:
    code = (
        "import json\n"
        "from openai import OpenAI\n"
        'client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key="unused", timeout=200)\n'
        'asked = {"model": "metacog/vote", "max_tokens": 48,'
        ' "messages": [{"role": "user", "content": "Is water wet?"}],'
        ' "extra_body": {"metacog": {"answer_type": "BOOLEAN", "fallback": False, "vote": {"most": 3}}}}\n'
        "whole = client.chat.completions.create(**asked)\n"
        "chunks = list(client.chat.completions.create(stream=True, **asked))\n"
        "text = ''.join(chunk.choices[0].delta.content or '' for chunk in chunks if chunk.choices)\n"
        "explained = [chunk.metacog for chunk in chunks if getattr(chunk, 'metacog', None)]\n"
        "print(json.dumps([whole.metacog, whole.choices[0].message.content, explained[-1], text]))"
    )

    whole, content, streamed, text = json.loads(run_python(suite, code))
    router = suite.url("METACOG_ROUTER_REST_PORT")
    accounts = [
        fetch(f"{router}/v1/runs/{explained['run_id']}")["run"]["deliberation"] for explained in (whole, streamed)
    ]

    assert (whole["strategy"], streamed["strategy"]) == ("vote", "vote")
    assert content.strip()
    assert text.strip()
    for explained, account in zip((whole, streamed), accounts, strict=True):
        assert 2 <= len(account["votes"]) <= 3
        assert account["votes"][0]["mode"] == "DRAFT"
        assert account["outcome"] in {"DECIDED", "UNDECIDED", "ABSTAINED"}
        has_answer = account["outcome"] != "ABSTAINED"
        assert (explained["confidence"] is not None) is has_answer
        assert explained["confidence_state"] == ("PRIOR" if has_answer else None)


def test_the_encoder_gives_vectors_to_the_stock_client(suite: Suite) -> None:
    code = (
        "from openai import OpenAI\n"
        'made = OpenAI(base_url="http://127.0.0.1:8001/v1", api_key="unused")'
        '.embeddings.create(model="all-MiniLM-L6-v2", input=["a cat"])\n'
        "print(len(made.data[0].embedding))"
    )

    assert run_python(suite, code).strip() == "384"


def test_the_console_answers_reaches_every_service_and_escapes_what_it_shows(suite: Suite) -> None:
    console = suite.url("METACOG_CONSOLE_PORT")

    def shown(path: str, form: dict[str, str] | None = None) -> str:
        body = urllib.parse.urlencode(form).encode() if form else None
        asked = urllib.request.Request(f"{console}{path}", body, {"origin": console})
        with urllib.request.urlopen(asked, timeout=120) as reply:
            page: str = reply.read().decode()
        return page

    begun = shown("/ask", {"question": "<script>alert(1)</script>", "strategy": "system1", "max_tokens": "8"})
    followed = re.search(r'sse-connect="([^"]+)"', begun)
    events = shown(followed[1]) if followed else ""
    opened = re.search(r'href="(/runs/[^"]+)"', events)
    run = shown(opened[1]) if opened else ""

    assert events.endswith("event: done\ndata: over\n\n")
    assert "&lt;script&gt;alert(1)" in run
    assert "<script>alert" not in begun + events + run
    for path in ("/runs", "/agents", "/calibration", "/knowledge"):
        assert 'class="notice"' not in shown(path)


def test_a_service_that_is_killed_comes_back(suite: Suite) -> None:
    parts = {part["name"]: part for part in json.loads(suite.command("status", "--json").stdout)["parts"]}
    killed = parts["arbiter"]["pid"]
    os.kill(killed, signal.SIGKILL)

    def back() -> bool:
        now = {part["name"]: part for part in json.loads(suite.command("status", "--json").stdout)["parts"]}
        return bool(now["arbiter"]["stage"] == "ready" and now["arbiter"]["pid"] != killed)

    eventually(back, "the arbiter's return")


def test_down_leaves_no_process_behind_even_after_the_supervisor_was_killed(suite: Suite) -> None:
    supervisor = json.loads((suite.home / "run" / "supervisor.pid").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(supervisor) or _is_zombie(supervisor), "the supervisor's end")

    stopped = suite.command("down")

    assert stopped.returncode == 0
    assert [process.cmdline() for process in psutil.process_iter() if _belongs(process, suite.home)] == []


def _is_zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def _belongs(process: psutil.Process, home: Path) -> bool:
    """Whether a process was started for the suite at `home`: by its environment, or by its data folder."""
    try:
        return process.environ().get("METACOG_HOME") == str(home) or str(home / "postgres") in process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return False
