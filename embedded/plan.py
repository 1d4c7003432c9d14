"""The plan of the suite is a list of parts, a pure function of the settings."""

import sys

from configuration.services import SERVICES, WITH_SCHEMA
from embedded.ports import Port
from embedded.postgres.files import database_url
from embedded.settings import ROOT, SuiteSettings
from embedded.supervision.parts import ProcessSpec
from embedded.supervision.processes import Home
from embedded.vllm import READY_WITHIN_S, VllmSettings, command

SMALL_MODEL_ALIAS = "smollm2"
LOOPBACK = "127.0.0.1"
# Parts stop from the highest wave to the lowest: first those that receive requests, last those that serve them.
PARTS_WAVE, SERVICES_WAVE, ENTRY_WAVE = 1, 2, 3


def plan(settings: SuiteSettings, model: str) -> list[ProcessSpec]:
    """Return every part of the suite, in the order of display.

    Args:
        settings: Settings of the user.
        model: Path of the GGUF file if llama.cpp runs; ignored otherwise.
    """
    common = shared_environment(settings)
    parts = []
    if settings.database_url is None:
        parts.append(_postgres(settings, common))
    if settings.starts_model_server:
        parts.append(_vllm(settings, settings.vllm, common) if settings.vllm else _llm(settings, common, model))
    if settings.encoder_url is None:
        parts.append(_http_part("encoder", "encoder", settings.ports["METACOG_ENCODER_PORT"], common, PARTS_WAVE))
    parts += [_migration(name, settings, common) for name in reversed(WITH_SCHEMA)]
    parts += [_service(name, settings, common) for name in reversed(SERVICES)]
    parts.append(_http_part("console", "console", settings.ports["METACOG_CONSOLE_PORT"], common, ENTRY_WAVE))
    return parts


def shared_environment(settings: SuiteSettings) -> dict[str, str]:
    """Return the variables that every part receives."""
    ports = settings.ports
    addresses = {
        f"METACOG_{name.upper()}_ADDRESS": f"{LOOPBACK}:{ports[f'METACOG_{name.upper()}_GRPC_PORT']}"
        for name in SERVICES
    }
    variables = {
        "METACOG_HOME": str(settings.home),
        "METACOG_DATABASE_URL": settings.database_url or database_url(Home(settings.home).data),
        "METACOG_INFERENCE_URL": settings.inference_url or f"http://{LOOPBACK}:{ports['METACOG_INFERENCE_PORT']}/v1",
        "METACOG_INFERENCE_MODEL": model_name(settings),
        "METACOG_ENCODER_URL": settings.encoder_url or f"http://{LOOPBACK}:{ports['METACOG_ENCODER_PORT']}/v1",
        "METACOG_ROUTER_URL": f"http://{LOOPBACK}:{ports['METACOG_ROUTER_REST_PORT']}",
        "METACOG_ASSIGNER_DELEGATION_ADDRESS": f"{LOOPBACK}:{ports['METACOG_DELEGATION_GRPC_PORT']}",
        "METACOG_DELEGATION_URL": f"http://{LOOPBACK}:{ports['METACOG_DELEGATION_REST_PORT']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}",
    }
    return variables | settings.files | addresses | {name: str(number) for name, number in ports.items()}


def model_name(settings: SuiteSettings) -> str:
    """Return the name of the model in requests."""
    return settings.inference_model or (settings.vllm.model if settings.vllm else SMALL_MODEL_ALIAS)


def required_ports(settings: SuiteSettings) -> list[Port]:
    """Return the ports that the suite itself listens on."""
    external = set()
    if not settings.starts_model_server:
        external.add("METACOG_INFERENCE_PORT")
    if settings.encoder_url is not None:
        external.add("METACOG_ENCODER_PORT")
    return [Port(number, _port_purpose(name), name) for name, number in settings.ports.items() if name not in external]


def _port_purpose(setting: str) -> str:
    """Return the purpose of the port of `setting`.

    Example:
        >>> _port_purpose("METACOG_ROUTER_GRPC_PORT")
        'router gRPC'
    """
    words = setting.removeprefix("METACOG_").removesuffix("_PORT").lower().replace("_", " ")
    return words.replace("grpc", "gRPC").replace("rest", "REST")


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *arguments)


def _postgres(settings: SuiteSettings, common: dict[str, str]) -> ProcessSpec:
    home = Home(settings.home)
    ready = str(home.run / "postgres.ready")
    return ProcessSpec(
        name="postgres",
        command=_python("embedded.postgres", "--data", str(home.data), "--ready-file", ready),
        environment=common,
        url=str(home.data),
        ready_file=ready,
        grace_s=40.0,
        wave=PARTS_WAVE - 1,
    )


def _llm(settings: SuiteSettings, common: dict[str, str], model: str) -> ProcessSpec:
    port = settings.ports["METACOG_INFERENCE_PORT"]
    alias = model_name(settings)
    options = ("--model", model, "--alias", alias, "--port", str(port), "--threads", str(settings.threads))
    return ProcessSpec(
        name="llm",
        command=_python("embedded.llm", *options),
        environment=common,
        url=f"http://{LOOPBACK}:{port}/v1",
        ready_url=f"http://{LOOPBACK}:{port}/health",
        ready_within_s=600.0,  # the user's own file may be large
        wave=PARTS_WAVE,
    )


def _vllm(settings: SuiteSettings, vllm: VllmSettings, common: dict[str, str]) -> ProcessSpec:
    port = settings.ports["METACOG_INFERENCE_PORT"]
    environment = {name: text for name, text in common.items() if name != "PYTHONPATH"}
    key = {"VLLM_API_KEY": settings.inference_key} if settings.inference_key else {}
    return ProcessSpec(
        name="vllm",
        command=command(vllm, alias=model_name(settings), host=LOOPBACK, port=port),
        environment={**environment, "PYTHONPATH": "", **key},
        url=f"http://{LOOPBACK}:{port}/v1",
        ready_url=f"http://{LOOPBACK}:{port}/health",
        ready_within_s=READY_WITHIN_S,
        grace_s=30.0,
        wave=PARTS_WAVE,
    )


def _migration(name: str, settings: SuiteSettings, common: dict[str, str]) -> ProcessSpec:
    return ProcessSpec(
        name=f"{name}-migrate",
        command=_python(f"services.{name}", "migrate"),
        environment=common,
        after=("postgres",) if settings.database_url is None else (),
        once=True,
        wave=PARTS_WAVE,
    )


def _service(name: str, settings: SuiteSettings, common: dict[str, str]) -> ProcessSpec:
    port = settings.ports[f"METACOG_{name.upper()}_REST_PORT"]
    wave = ENTRY_WAVE if name == "router" else SERVICES_WAVE
    after = (f"{name}-migrate",) if name in WITH_SCHEMA else ()
    return _http_part(name, f"services.{name}", port, common, wave, after=after)


def _http_part(
    name: str, module: str, port: int, common: dict[str, str], wave: int, *, after: tuple[str, ...] = ()
) -> ProcessSpec:
    base = f"http://{LOOPBACK}:{port}"
    return ProcessSpec(
        name=name,
        command=_python(module),
        environment=common,
        url=base,
        ready_url=f"{base}/readyz",
        after=after,
        wave=wave,
    )
