"""One request seen from outside: its trace, and what Prometheus makes of the metrics."""

import json
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from openai import OpenAI

from tests.compose.live.check_2_journeys import SMALL
from tests.compose.live.suite import ROOT, Suite, awaited, total

SERVED = {"router": 8080, "assigner": 8081, "arbiter": 8082, "delegation": 8083}
TOUCHED = {"dialectic": "assigner", "arbiter": "arbiter", "delegation": "delegation"}
QUERY = "import json,sys,urllib.request as u,urllib.parse as p\nfor q in json.load(sys.stdin):\n" + (
    " print(u.urlopen('http://prometheus:9090/api/v1/query?query='+p.quote(q)).read().decode())"
)
# What no journey has brought about: nothing drifted, failed or was judged yet.
MAY_BE_EMPTY = (
    "fallbacks", "drift", "calibration_error", "delegation_labels", "profile_updates", "outbox", "lost", "overloaded",
    "BUDGET_EXHAUSTED", "DELEGATED", "saved", "entropy", "vllm:", "parked",
)  # fmt: skip


def model_calls(suite: Suite) -> float:
    """Model calls of all services so far."""
    return sum(total(suite.metrics(name, port), "metacog_backend_calls_total") for name, port in SERVED.items())


def spans_of(suite: Suite, trace: str) -> Sequence[dict[str, Any]]:
    """Spans of a trace that have arrived."""
    lines = [json.loads(line) for line in suite.logs("otel-collector").splitlines() if line.startswith("{")]
    return [span for span in lines if span["trace"] == trace]


@pytest.mark.parametrize("strategy", TOUCHED)
def test_a_trace_has_spans_of_every_service_it_touched_and_of_each_model_call(
    suite: Suite, openai: OpenAI, strategy: str
) -> None:
    trace, before = secrets.token_hex(16), model_calls(suite)

    openai.chat.completions.create(
        model=f"metacog/{strategy}",
        messages=[{"role": "user", "content": "Is 91 a prime number?"}],
        max_tokens=24,
        extra_body={"metacog": SMALL},
        extra_headers={"traceparent": f"00-{trace}-{secrets.token_hex(8)}-01"},
    )

    made = model_calls(suite) - before
    spans = awaited(lambda: whole(spans_of(suite, trace), made), 60, "the whole trace has arrived")
    calls = [span for span in spans if span["name"].startswith("chat ")]
    assert {span["service"] for span in spans} == {"metacog-router", f"metacog-{TOUCHED[strategy]}"}
    assert len(calls) == made > 1
    assert all(span["attributes"]["gen_ai.request.model"] == "smollm2" for span in calls)
    known = {span["span"] for span in spans}
    assert sum(span["parent"] not in known for span in spans) == 1  # the client's own span, which nobody sent
    by_service = dict(Counter(span["service"] for span in spans))
    suite.said[f"trace of {strategy}"] = f"{len(spans)} spans, {len(calls)} model calls; by service {by_service}"


def whole(spans: Sequence[dict[str, Any]], calls: float) -> Sequence[dict[str, Any]]:
    """The spans, once there are as many model calls and the root among them."""
    arrived = sum(span["name"].startswith("chat ") for span in spans)
    roots = [span for span in spans if span["name"].startswith("POST ")]
    if arrived < calls or not roots:
        raise LookupError(f"{arrived} of {calls} model calls, {len(roots)} roots")
    return spans


def queries() -> Iterator[str]:
    """Every query of the dashboard, as Grafana sends it."""
    dashboard = json.loads((ROOT / "docker/grafana/dashboards/metacog.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "10m")


def test_prometheus_finds_every_replica_and_reads_it(suite: Suite) -> None:
    def up() -> dict[str, int]:
        told = json.loads(prometheus(suite, ["sum by (job) (up)"])[0])["data"]["result"]
        found = {one["metric"]["job"]: int(one["value"][1]) for one in told}
        if found != {"router": 1, "assigner": 1, "arbiter": 3, "delegation": 1, "inference": 1}:
            raise LookupError(str(found))
        return found

    assert awaited(up, 90, "all targets are up")


def prometheus(suite: Suite, asked: Sequence[str]) -> list[str]:
    """Prometheus' answers, asked from a container on its network."""
    script = f"import io,sys\nsys.stdin=io.StringIO({json.dumps(json.dumps(list(asked)))})\n{QUERY}"
    return suite.inside("arbiter", "python", "-c", script).splitlines()


def test_every_query_of_the_dashboard_is_answered_and_shows_what_the_journeys_did(suite: Suite) -> None:
    asked = list(queries())

    answers = [json.loads(line) for line in prometheus(suite, asked)]

    assert [one["status"] for one in answers] == ["success"] * len(asked)
    empty = [query for query, one in zip(asked, answers, strict=True) if not one["data"]["result"]]
    assert [query for query in empty if not any(word in query for word in MAY_BE_EMPTY)] == []
    suite.said["dashboard"] = f"{len(asked)} queries answered, {len(asked) - len(empty)} with figures"


def test_the_alert_rules_are_loaded_and_none_of_them_breaks(suite: Suite) -> None:
    rules = suite.inside("prometheus", "promtool", "check", "rules", "/etc/prometheus/alerts.yml")
    checked = suite.inside("prometheus", "promtool", "check", "config", "/etc/prometheus/prometheus.yml")

    assert "SUCCESS" in rules
    assert "SUCCESS" in checked
