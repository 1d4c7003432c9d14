"""The checks of `metacog doctor`: each finds problems of one kind and describes what to do."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from chassis.serving.wire import adapter
from cli.operation.findings import Finding, fine, not_checked, note, wrong
from cli.operation.settings import problems, settings, unknown_names
from cli.terminal.client import Service, ServiceError, Unreachable
from configuration.services import SERVICES, WITH_SCHEMA
from kernel.errors import MetacogError
from kernel.values import value

ROOT = Path(__file__).resolve().parents[2]
OLDEST_PYTHON, OLDEST_POSTGRES, OLDEST_PGVECTOR = (3, 11), 15, (0, 8)
UNREADABLE_KEYS = "set METACOG_KEYS_FILE to a valid keys file that this user may read; `make keys` writes one"
# A key that no suite has.
NO_KEY = "not-a-key-of-any-suite"
TO_START = "metacog up (or make up) starts the suite"


@value
class Readiness:
    """What a ready service says of its parts, by their names: `ok`, or what they lack."""

    parts: Mapping[str, str]


def versions() -> Iterator[Finding]:
    """Check the versions of Python and of the locked packages."""
    here = sys.version.split()[0]
    if sys.version_info[:2] >= OLDEST_PYTHON:
        yield fine("python", here)
    else:
        yield wrong("python", f"{here} is too old", "use Python 3.11 or newer")
    locked = next(
        (file for name in ("suite.txt", "embedded.txt") if (file := ROOT / "requirements" / name).exists()), None
    )
    if locked is None or find_spec("packaging") is None:
        yield not_checked(
            "packages", "the list of locked packages, or the package `packaging` that reads it, is missing"
        )
        return
    pinned = _pinned(locked.read_text())
    others = [
        f"{name} {has or 'missing'} (locked: {want})" for name, want in pinned.items() if (has := _has(name)) != want
    ]
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        yield note("packages", f"not as locked: {', '.join(others[:5])}{more}", "make setup installs the locked ones")
    else:
        yield fine("packages", f"{len(pinned)}, as locked")


def _pinned(locked: str) -> dict[str, str]:
    r"""Return the locked version of each package for this Python and system.

    Example:
        >>> _pinned("typer==0.29.2\nnone==1 ; python_full_version < '3.0'")
        {'typer': '0.29.2'}
    """
    from packaging.requirements import Requirement

    lines = [line.rstrip("\\ ") for line in locked.splitlines() if re.match(r"[A-Za-z0-9]", line)]
    meant = [Requirement(line) for line in lines]
    return {
        each.name: next(iter(each.specifier)).version
        for each in meant
        if each.specifier and (each.marker is None or each.marker.evaluate())
    }


def _has(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def configuration() -> Iterator[Finding]:
    """Check the settings of this environment, and their files."""
    from cli.operation.config import READERS, files_in_force

    found = problems(os.environ)
    if found:
        yield wrong("settings", "; ".join(found), "correct them in the environment; docs/configuration.md lists all")
    else:
        unknown = ", ".join(name for name, guess in unknown_names(os.environ).items() if not guess)
        count = sum(each.is_set for each in settings())
        yield note("settings", f"no part reads {unknown}") if unknown else fine("settings", f"{count} are set")
    for kind, path in files_in_force().items():
        try:
            yield fine(f"file: {kind}", f"{path}: {READERS[kind](path)}")
        except MetacogError as problem:
            yield wrong(f"file: {kind}", problem.message, "correct it; `metacog config validate` checks it again")


def peer_key(values: Mapping[str, str]) -> Iterator[Finding]:
    """Check that the key with which the services call one another may act for the holders of other keys."""
    from configuration.keys import check_peer_key, read_keys

    file, key = values["METACOG_KEYS_FILE"], values["METACOG_PEER_KEY"]
    if not file or not key:
        yield not_checked("peer key", "METACOG_KEYS_FILE and METACOG_PEER_KEY are not both set here")
        return
    try:
        keyring = read_keys(Path(file))
    except MetacogError as problem:
        yield wrong("peer key", problem.message, UNREADABLE_KEYS)
        return
    try:
        check_peer_key(keyring, key)
    except MetacogError as problem:
        yield wrong("peer key", problem.message, "then restart the services")
    else:
        yield fine("peer key", "nothing is wrong with it in the keys file")


def ports(answering: str) -> Iterator[Finding]:
    """Check that the ports are free, or used by the suite.

    Args:
        answering: Address of a router that answers; empty: none does.
    """
    try:
        from embedded.plan import required_ports
        from embedded.ports import port_conflicts
        from embedded.settings import from_environment
        from embedded.status import current
        from embedded.supervision.processes import Home
    except ImportError as missing:
        yield not_checked("ports", f"the packages that run the suite on one machine are not installed ({missing.name})")
        return
    chosen = from_environment()
    states = current(Home(chosen.home))
    taken = [] if answering else port_conflicts(required_ports(chosen))
    if any(state.pid is not None for state in states):
        down = [f"{state.name} {state.stage}" for state in states if not state.stage.is_up]
        yield _running(len(states), down, chosen.home)
    elif answering:
        yield note("suite", f"the one at {answering} was not started by metacog up with METACOG_HOME={chosen.home}")
    elif taken:
        yield wrong("ports", "; ".join(taken), "stop the processes that use them, or set these variables")
    else:
        yield note("suite", "it is not running; its ports are free", TO_START)


def _running(parts: int, down: Sequence[str], home: Path) -> Finding:
    if down:
        advice = f"look into {home / 'logs'}; `metacog down` and `metacog up` restart it"
        return wrong("suite", f"it runs, but some parts are not up: {', '.join(down)}", advice)
    return fine("suite", f"{parts} parts run, on their ports")


def services(addresses: Mapping[str, str], key: str) -> Iterator[Finding]:
    """Check that each service is ready, and that its parts are."""
    for name in SERVICES:
        yield _service(Service(name, addresses.get(name, ""), key=key))
    url = addresses.get("router", "")
    yield _key(Service("router", url, key=key), Service("router", url, key=NO_KEY))


def _service(service: Service) -> Finding:
    try:
        report: Readiness = adapter(Readiness).validate_python(service.get_document("/readyz"), extra="ignore")
    except Unreachable as error:
        return wrong(service.name, error.message.splitlines()[0], TO_START)
    except ValidationError:
        return wrong(service.name, "its readiness has an unknown form", f"is {service.url} the right address?")
    except ServiceError as error:
        if error.code.http != 503:
            return wrong(service.name, error.message, f"is {service.url} the right address?")
        return wrong(
            service.name, f"{service.url} is up and not ready", f"curl {service.url}/readyz lists the missing parts"
        )
    down = {part: status for part, status in report.parts.items() if status != "ok"}
    if down:
        missing = "; ".join(f"{part}: {status}" for part, status in down.items())
        return note(
            service.name, f"ready at {service.url}, without {missing}", "it works with less; repair these parts"
        )
    return fine(service.name, f"ready at {service.url}, with {', '.join(report.parts)}")


def _key(router: Service, other: Service) -> Finding:
    """Check that the router accepts the key of `router`, and not that of `other`, which it cannot know."""
    try:
        router.get_document("/v1/models")
    except Unreachable:
        return not_checked("key", "the router cannot be reached")
    except ServiceError as error:
        advice = (
            "set METACOG_API_KEY; `metacog keys new NAME --file KEYS_FILE` creates a key; then restart the services"
        )
        return wrong("key", error.message, advice)
    if not router.key:
        return fine("key", "none is required")
    try:
        other.get_document("/v1/models")
    except MetacogError:
        return fine("key", "accepted")
    return note(
        "key", "the router checks none, as no keys are configured: every caller is let in", "set METACOG_KEYS_FILE"
    )


def database(url: str) -> Iterator[Finding]:
    """Check that PostgreSQL answers, and the versions of PostgreSQL, pgvector and the schemas."""
    import psycopg

    try:
        with psycopg.connect(url.replace("+psycopg", "", 1), connect_timeout=3) as connection:
            yield from _database(connection)
    except psycopg.Error as error:
        reason = (str(error).strip().splitlines() or ["there is no reason"])[0]
        advice = (
            "`metacog up` starts one; for your own, set METACOG_DATABASE_URL. Without it the suite answers, "
            "and learns later"
        )
        yield wrong("database", f"it cannot be used: {reason}", advice)


def _database(connection: "psycopg.Connection[tuple[str]]") -> Iterator[Finding]:  # type: ignore[name-defined] # noqa: F821
    number = connection.info.server_version // 10_000
    if number < OLDEST_POSTGRES:
        yield wrong("database", f"PostgreSQL {number} is too old", f"use PostgreSQL {OLDEST_POSTGRES} or newer")
    else:
        yield fine("database", f"PostgreSQL {number} answers")
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    found = tuple(int(part) for part in row[0].split(".")[:2]) if row else ()
    if found < OLDEST_PGVECTOR:
        problem = f"pgvector {row[0]} is too old" if row else "the extension pgvector is missing"
        yield wrong("pgvector", problem, "install pgvector 0.8 or newer; the migrations create the extension")
    else:
        yield fine("pgvector", row[0] if row else "")
    for name in WITH_SCHEMA:
        yield _schema(connection, name)


def _schema(connection: "psycopg.Connection[tuple[str]]", name: str) -> Finding:  # type: ignore[name-defined] # noqa: F821
    newest = _newest(name)
    to_migrate = f"python -m services.{name} migrate"
    if connection.execute("SELECT to_regclass(%s)", [f"{name}.alembic_version"]).fetchone() in (None, (None,)):
        return wrong(f"schema: {name}", "it is missing", to_migrate)
    row = connection.execute(f"SELECT version_num FROM {name}.alembic_version").fetchone()
    has = row[0] if row else "nothing"
    if newest and has != newest:
        return wrong(f"schema: {name}", f"it is at {has}, the code at {newest}", to_migrate)
    return fine(f"schema: {name}", f"at {has}")


def _newest(name: str) -> str:
    """Return the newest revision in the code; empty if the code is not installed here."""
    files = sorted((ROOT / "services" / name / "migrations" / "versions").glob("[0-9]*.py"))
    found = re.search(r'^revision(?:: str)? = "(.+)"', files[-1].read_text(), re.MULTILINE) if files else None
    return found[1] if found else ""


def answering(url: str, key: str) -> str:
    """Return the address of the router if it answers, else an empty string."""
    router = Service("router", url, key=key)
    try:
        router.get_document("/healthz")
    except MetacogError:
        return ""
    return router.url


def in_force(*, elsewhere: bool) -> Mapping[str, str]:
    """Return the settings of the running embedded suite, else those of this environment, else the defaults.

    Args:
        elsewhere: Whether a suite runs that was not started here; its defaults are unknown.
    """
    values = {each.name: each.given or ("" if elsewhere else each.default) for each in settings()}
    try:
        from embedded.settings import home_path
        from embedded.supervision.parts import read_plan
        from embedded.supervision.processes import Home, recorded_process

        home = Home(home_path(os.environ))
        if recorded_process(home, "supervisor") is not None:
            return {**values, **read_plan(home.run / "plan.json")[-1].environment}
    except (ImportError, OSError, ValueError):
        pass
    return values
