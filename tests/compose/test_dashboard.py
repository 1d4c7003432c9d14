"""Alerts and dashboard ask for metrics that there are, with labels that they have."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from metacog.common.v1.error_reason_pb2 import ErrorReason
from prometheus_client.parser import text_string_to_metric_families

from configuration.services import SERVICES
from kernel.confidence.rules import TaskMode
from kernel.errors import Code
from kernel.policy import Strategy
from kernel.votes.plans import EscalationReason
from tests.support.models.scripted_llm import RawReply, ScriptedLLM
from tests.support.stack import cast, process

ROOT = Path(__file__).parents[2]
SUFFIXES = ("_bucket", "_sum", "_count", "_total")
# Values that the code can give the labels which queries match.
VALUES = {
    ("metacog_requests_total", "code"): frozenset({"OK", "UNKNOWN", *(code.name for code in Code)}),
    ("metacog_backend_calls_total", "outcome"): frozenset(
        {"OK", "CANCELLED", *(name.removeprefix("ERROR_REASON_") for name in ErrorReason.DESCRIPTOR.values_by_name)}
    ),
    ("metacog_run_seconds", "strategy"): frozenset(Strategy),
    ("metacog_routed_total", "system"): frozenset({"SYSTEM_ONE", "SYSTEM_TWO"}),
    ("metacog_delegation_tasks_total", "mode"): frozenset(TaskMode),
    ("metacog_cascades_total", "reason"): frozenset({"DECIDED", *EscalationReason}),
}
# Needs several services at once, which no test here has; its values are those of an enumeration.
NOT_PRODUCED = {"metacog_cascades_total"}
# What Prometheus adds to every sample.
ADDED = {"job", "instance"}


def alerts() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load((ROOT / "docker/prometheus/alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def panels() -> Iterator[tuple[str, str]]:
    dashboard = json.loads((ROOT / "docker/grafana/dashboards/metacog.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def names(expression: str) -> set[str]:
    """Families of our own that a query names."""
    found = re.findall(r"metacog_\w+", expression)
    return {next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name) for name in found}


@dataclass(frozen=True)
class Pages:
    """What the four services show at /metrics after some requests.

    Attributes:
        families: Kind of each metric, by its name without a suffix.
        series: Labels of each series, with the name of its service as `job`, by the name of its metric.
    """

    families: Mapping[str, str]
    series: Mapping[str, Sequence[Mapping[str, str]]]


async def use(service: str, client: httpx.AsyncClient) -> None:
    """Send requests, so that there are series."""
    question = {"question": "Is it so?"}
    match service:
        case "router":
            await client.post("/v1/answers", json={**question, "strategy": "system1"})
            await client.get("/v1/runs/unknown")
        case "delegation":
            await client.post("/v1/tasks", json={**question, "dimension": "math_computation"})
        case "assigner":
            await client.post("/v1/deliberations", json=question)
        case "arbiter":
            await client.post("/v1/arbitrations", json=question)
            await client.post("/v1/votes", json=question)


@pytest.fixture(scope="module")
async def pages(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """What the services show."""
    families: dict[str, str] = {}
    series: dict[str, list[Mapping[str, str]]] = {}
    with ScriptedLLM() as llm:
        llm.answer = cast()
        for service in SERVICES:
            settings = {
                "METACOG_INFERENCE_URL": f"{llm.url}/v1",
                "METACOG_DATABASE_URL": database_url,
                "METACOG_HOME": tmp_path_factory.mktemp(service),
            }
            async with (
                process(service, **settings) as running,
                httpx.AsyncClient(base_url=running.rest, timeout=120) as client,
            ):
                await use(service, client)
                page = (await client.get("/metrics")).text
            for family in text_string_to_metric_families(page):
                families[family.name] = family.type
                for sample in family.samples:
                    series.setdefault(sample.name, []).append({**sample.labels, "job": service})
    return Pages(families=families, series=series)


@pytest.fixture
def families(pages: Pages) -> Mapping[str, str]:
    """Kind of each metric, by its name without a suffix."""
    return pages.families


def selectors(expression: str) -> Iterator[tuple[str, Sequence[tuple[str, str, str]]]]:
    """Each metric that a query names, with its matchers: label, operator, value."""
    for name, matchers in re.findall(r"\b(metacog_\w+|up)\b(?:\{([^}]*)\})?", expression):
        yield name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers)


def can_be(metric: str, label: str) -> frozenset[str] | None:
    """The values that the code gives a label; None where they are not listed here."""
    job = frozenset({*SERVICES, "inference"})
    return job if label == "job" else VALUES.get((metric.removesuffix("_bucket"), label))


async def test_every_query_names_metrics_that_a_service_has(families: Mapping[str, str]) -> None:
    for where, expression in [*alerts(), *panels()]:
        named = names(expression)
        assert named or "up{" in expression or "vllm:" in expression, where
        assert named <= set(families), where


async def test_buckets_are_asked_of_histograms_and_rates_of_counters(families: Mapping[str, str]) -> None:
    for where, expression in [*alerts(), *panels()]:
        for name in re.findall(r"(metacog_\w+)_bucket", expression):
            assert families[name] == "histogram", where
        for name in re.findall(r"(?:rate|increase)\((metacog_\w+)_total", expression):
            assert families[name] == "counter", where
        for name in re.findall(r"(?:sum|max)(?: by \([\w, ]+\))? ?\((metacog_\w+)\)", expression):
            assert families.get(name) == "gauge" or name.endswith("_total"), where


def test_every_matcher_names_values_that_its_label_can_have() -> None:
    for where, expression in [*alerts(), *panels()]:
        for metric, matchers in selectors(expression):
            for label, _, value in matchers:
                possible = can_be(metric, label)
                assert possible is not None, f"{where}: add the values of {label} of {metric} to VALUES"
                assert set(value.split("|")) <= possible, where


async def test_the_listed_values_are_those_of_real_series(pages: Pages) -> None:
    for (metric, label), possible in VALUES.items():
        real = {labels[label] for name in (metric, f"{metric}_bucket") for labels in pages.series.get(name, [])}
        assert real or metric in NOT_PRODUCED, (metric, label)
        assert real <= possible, (metric, label)


async def test_slow_answers_of_system_one_are_seen_by_their_alert(pages: Pages) -> None:
    expression = dict(alerts())["SlowSystemOne"]
    [(metric, matchers)] = selectors(expression)

    assert [labels for labels in pages.series[metric] if all(labels[label] == value for label, _, value in matchers)]


async def test_labels_by_which_queries_match_or_group_are_those_of_real_series(pages: Pages) -> None:
    for where, expression in [*alerts(), *panels()]:
        for part in re.split(r"(?<=\))\s*/\s*(?=sum)|\band\b", expression):
            asked = {label for group in re.findall(r"by \(([\w, ]+)\)", part) for label in group.split(", ")}
            for metric, matchers in selectors(part):
                used = {*asked, *(label for label, _, _ in matchers)}
                for labels in pages.series.get(metric, [])[:1]:
                    assert used <= {*labels} | ADDED, where


async def test_what_a_model_wrote_wrong_is_no_bug(database_url: str, tmp_path: Path) -> None:
    with ScriptedLLM() as llm:
        deep = f"{'[' * 300}{']' * 300}"
        llm.fault(*[RawReply(f'{{"choices": [{{"message": {{"content": "a", "x": {deep}}}}}]}}'.encode())] * 8)
        settings = {
            "METACOG_INFERENCE_URL": f"{llm.url}/v1",
            "METACOG_DATABASE_URL": database_url,
            "METACOG_HOME": tmp_path,
        }
        async with (
            process("router", **settings) as router,
            httpx.AsyncClient(base_url=router.rest, timeout=120) as client,
        ):
            chat = {"model": "metacog/system1", "messages": [{"role": "user", "content": "Is it so?"}]}
            failed = await client.post("/v1/chat/completions", json=chat)
            page = (await client.get("/metrics")).text

    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    counts = {(sample.name, sample.labels.get("code")): sample.value for sample in samples}
    assert failed.json()["error"]["code"] == "unparsable_output"
    assert counts["metacog_requests_total", "INTERNAL"] >= 1  # by which the alert fired before
    assert counts["metacog_bugs_total", None] == 0


def test_the_dashboard_has_what_operators_ask_for_first() -> None:
    asked = " ".join(expression for _, expression in panels())

    for metric in (
        "metacog_requests_total",
        "metacog_routed_total",
        "metacog_activation_bucket",
        "metacog_stage_seconds_bucket",
        "metacog_tokens_total",
        "metacog_fallbacks_total",
        "metacog_delegation_tasks_total",
        "metacog_entropy_reduction_nats_sum",
        "metacog_calibration_error",
        "metacog_admitted_in_flight",
        "BUDGET_EXHAUSTED",
    ):
        assert metric in asked


def test_prometheus_looks_for_the_services_where_they_listen() -> None:
    config = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yml").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())

    found = {job["dns_sd_configs"][0]["names"][0]: job["dns_sd_configs"][0]["port"] for job in config["scrape_configs"]}
    listening = {name: compose["services"][name]["healthcheck"]["test"][-1].split("/")[0] for name in SERVICES}

    assert found == {"llm": 8000, **{name: int(port) for name, port in listening.items()}}
    assert {job["job_name"] for job in config["scrape_configs"]} == {*SERVICES, "inference"}
