"""What `metacog doctor` finds, where it can be made to be wrong exactly."""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from cli.operation import checks, probes
from cli.operation.findings import Finding, Status
from configuration.services import SERVICES
from tests.support.models.scripted_llm import MINIMAL, ErrorReply, ScriptedLLM
from tests.support.models.scripted_service import ScriptedService
from tests.support.stack import NO_SERVER
from tests.unit.cli.running import Metacog


def found(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def asked(llm: ScriptedLLM, model: str = "") -> dict[str, Finding]:
    return found(probes.inference(f"{llm.url}/v1", "", model, may_generate=True))


def test_a_model_server_with_every_feature_is_fine(scripted: ScriptedLLM) -> None:
    scripted.answer = lambda body: ['{"sure": true}'] * (body.get("n") or 1)

    findings = asked(scripted)

    assert {finding.status for finding in findings.values()} == {Status.FINE}
    assert len(findings) == 6


def test_a_missing_feature_of_the_model_server_is_a_note_with_its_effect() -> None:
    with ScriptedLLM(MINIMAL) as llm:
        findings = found(probes._features(probes.Endpoint(f"{llm.url}/v1", ""), "scripted"))

    assert findings["inference: chat completions"].status is Status.FINE
    assert findings["inference: log-probabilities"].status is Status.NOTE
    assert "measure with less" in findings["inference: log-probabilities"].detail


def test_the_finding_for_a_missing_model_lists_the_available_ones(scripted: ScriptedLLM) -> None:
    findings = asked(scripted, "gpt-9")

    assert findings["inference"].status is Status.WRONG
    assert "it has scripted" in findings["inference"].detail
    assert "METACOG_INFERENCE_MODEL" in findings["inference"].advice


def test_the_finding_for_a_failing_model_server_contains_its_error(scripted: ScriptedLLM) -> None:
    scripted.fault(ErrorReply(500, "out of memory"))

    findings = asked(scripted)

    assert findings["inference: chat completions"].status is Status.WRONG
    assert "out of memory" in findings["inference: chat completions"].detail


def test_an_encoder_on_another_scale_is_a_note(service: ScriptedService) -> None:
    service.reply("GET /v1/models", json={"data": [{"id": "bge-m3"}]})
    service.reply("POST /v1/embeddings", json={"data": [{"embedding": [0.1, 0.2]}]})

    finding = found(probes.encoder(f"{service.url}/v1", "", "", "all-MiniLM-L6-v2"))["encoder"]

    assert (finding.status, "2 dimensions" in finding.detail) == (Status.NOTE, True)
    assert "METACOG_ROUTER_SIMILARITY_ENCODER" in finding.advice


def test_the_finding_for_an_unreachable_database_hides_its_password() -> None:
    url = "postgresql+psycopg://metacog:precious@127.0.0.1:1/metacog"

    finding = found(checks.database(url))["database"]

    assert finding.status is Status.WRONG
    assert "precious" not in finding.detail


class ScriptedDatabase:
    """A database without our schemas, with an extension of one version."""

    def __init__(self, pgvector: str) -> None:
        self.info = SimpleNamespace(server_version=180_000)
        self.pgvector = pgvector

    def execute(self, query: str, _: object = None) -> SimpleNamespace:
        row = (self.pgvector,) if "extversion" in query else (None,)
        return SimpleNamespace(fetchone=lambda: row)


@pytest.mark.parametrize(
    ("version", "status"), [("0.7.4", Status.WRONG), ("0.8.0", Status.FINE), ("0.10.1", Status.FINE)]
)
def test_the_extension_has_to_be_one_that_searches_know(version: str, status: Status) -> None:
    # Searches set `hnsw.iterative_scan`, which pgvector has from 0.8 on.
    finding = found(checks._database(ScriptedDatabase(version)))["pgvector"]

    assert finding.status is status


def test_the_finding_for_a_service_lists_its_missing_parts(service: ScriptedService) -> None:
    whole = {"ready": True, "parts": {"inference": "ok"}}
    service.reply("GET /readyz", json={"ready": True, "parts": {"inference": "ok", "database": "cannot be reached"}})
    service.reply("GET /readyz", json=whole)
    service.reply("GET /readyz", json={"ready": False, "parts": {"inference": "down"}}, status=503)
    service.reply("GET /v1/models", json={"error": {}}, status=401)
    addresses = dict.fromkeys(("router", "assigner", "arbiter"), service.url) | {"delegation": f"http://{NO_SERVER}"}

    findings = found(checks.services(addresses, "mc-wrong"))

    labels = {name: finding.status for name, finding in findings.items()}
    assert labels == {
        "router": Status.NOTE,
        "assigner": Status.FINE,
        "arbiter": Status.WRONG,
        "delegation": Status.WRONG,
        "key": Status.WRONG,
    }
    assert "database: cannot be reached" in findings["router"].detail
    assert "METACOG_API_KEY" in findings["key"].advice


@pytest.mark.parametrize(("other_status", "status"), [(401, Status.FINE), (200, Status.NOTE)])
def test_a_key_that_the_router_does_not_check_is_a_note(
    service: ScriptedService, other_status: int, status: Status
) -> None:
    service.always("GET /readyz", json={"ready": True, "parts": {}})
    service.reply("GET /v1/models", json={"data": []})
    service.reply("GET /v1/models", json={"data": []}, status=other_status)

    findings = found(checks.services(dict.fromkeys(SERVICES, service.url), "mc-mine"))

    assert findings["key"].status is status
    asked = [each.headers["authorization"] for each in service.asked if each.line == "GET /v1/models"]
    assert (asked[0], len(set(asked))) == ("Bearer mc-mine", 2)


def test_the_doctor_reports_the_problems_of_a_bare_machine_with_advice(
    metacog: Metacog, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("METACOG_HOME", str(tmp_path))
    for name in ("DATABASE_URL", "INFERENCE_URL", "ENCODER_URL", "ROUTER_URL"):
        monkeypatch.setenv(f"METACOG_{name}", f"http://{NO_SERVER}/v1")

    done = metacog("doctor", "--json")

    findings = {each["name"]: each for each in json.loads(done.out)["findings"]}
    assert done.status == 1
    assert {findings[name]["status"] for name in ("database", "inference", "encoder", "router")} == {"wrong"}
    assert all(each["advice"] for each in findings.values() if each["status"] == "wrong")


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ({"name": "metacog-services"}, Status.WRONG),
        ({"name": "metacog-services", "acts_for_others": True}, Status.FINE),
        ({"name": "suite"}, Status.FINE),
    ],
)
def test_a_peer_key_that_may_not_act_for_others_is_wrong(
    entry: dict[str, object], status: Status, tmp_path: Path
) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(yaml.safe_dump({"keys": [{**entry, "sha256": sha256(b"between-services").hexdigest()}]}))

    values = {"METACOG_KEYS_FILE": str(file), "METACOG_PEER_KEY": "between-services"}
    findings = found(checks.peer_key(values))

    assert findings["peer key"].status is status
    assert ("acts_for_others: true" in findings["peer key"].detail) == (status is Status.WRONG)


@pytest.mark.parametrize("content", [None, "keys: ["])
def test_a_keys_file_that_cannot_be_read_is_what_doctor_advises_about(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    if content is not None:
        file.write_text(content)

    findings = found(checks.peer_key({"METACOG_KEYS_FILE": str(file), "METACOG_PEER_KEY": "between-services"}))

    assert findings["peer key"].status is Status.WRONG
    assert str(file) in findings["peer key"].detail
    assert "METACOG_KEYS_FILE" in findings["peer key"].advice
