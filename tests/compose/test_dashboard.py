"""Alerts and dashboard ask for metrics that there are, with labels that they have."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.models.scripted_llm import ScriptedLLM
from tests.support.stack import process

ROOT = Path(__file__).parents[2]
SERVICES = ("router", "assigner", "arbiter", "delegation")
SUFFIXES = ("_bucket", "_sum", "_count", "_total")
LABELS = {
    "metacog_requests": {"api", "op", "code"},
    "metacog_request_seconds": {"api", "op", "le"},
    "metacog_backend_calls": {"backend", "work", "outcome"},
    "metacog_routed": {"system", "strategy", "reason"},
}
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


@pytest.fixture(scope="module")
async def families(database_url: str) -> Mapping[str, str]:
    """Kind of each metric on the pages of the four services, by its name without a suffix."""
    found: dict[str, str] = {}
    with ScriptedLLM() as llm:
        for service in SERVICES:
            settings = {"METACOG_INFERENCE_URL": llm.url, "METACOG_DATABASE_URL": database_url}
            async with process(service, **settings) as running, httpx.AsyncClient() as client:
                page = (await client.get(f"{running.rest}/metrics")).text
            found |= {family.name: family.type for family in text_string_to_metric_families(page)}
    return found


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


def test_the_labels_of_the_busiest_metrics_are_spelled_right() -> None:
    for where, expression in [*alerts(), *panels()]:
        for part in re.split(r"(?<=\))\s*/\s*(?=sum)", expression):
            for name in names(part) & set(LABELS):
                used = set(re.findall(r"(\w+)(?:=~|!~|!=|=)\"", part))
                used |= {label for group in re.findall(r"by \(([\w, ]+)\)", part) for label in group.split(", ")}
                assert used <= LABELS[name] | ADDED, where


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
