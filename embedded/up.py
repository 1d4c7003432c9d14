"""Starting a suite: check, hand over to a supervisor of its own, and wait until all is ready."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from embedded.down import stop_suite
from embedded.errors import SuiteError
from embedded.inference import first_model
from embedded.llm import check_model
from embedded.model import ensure_model
from embedded.parts import ProcessSpec, write_plan
from embedded.plan import plan, ports_wanted
from embedded.ports import check_ports
from embedded.processes import SUITE_VARIABLE, Home, last_lines, recorded, rotate
from embedded.settings import ROOT, SuiteSettings
from embedded.state import PartState, Stage, read_state
from embedded.terminal import say
from embedded.vllm import check_vllm

TICK_S = 0.1


def up(settings: SuiteSettings) -> None:
    """Start the suite and return when every part is ready; at once if it already is.

    Raises:
        SuiteError: A part cannot be had or does not come up; nothing is left running then.
    """
    home = Home(settings.home)
    home.make()
    with _alone(home):
        if stands(home):
            check_standing(home)
            say(f"already up: {where(settings)}")
            return
        if stop_suite(home):
            say("an earlier run was not complete; what was left of it has been stopped")
        began = time.monotonic()
        check_ports(ports_wanted(settings))
        launch(home, prepare(settings))
        say(f"ready after {time.monotonic() - began:.0f} s: {where(settings)}")


def prepare(settings: SuiteSettings) -> list[ProcessSpec]:
    """The parts of the suite, after the model is there or the named server has been asked for its own.

    Raises:
        SuiteError: Neither can be had.
    """
    if settings.inference_url is not None:
        model = settings.inference_model or first_model(settings.inference_url, settings.inference_key)
        return plan(replace(settings, inference_model=model), "")
    if settings.vllm is not None:
        check_vllm(settings.vllm)
        return plan(settings, "")
    path = settings.model or ensure_model(settings.home, say)
    check_model(path)
    return plan(settings, str(path))


def launch(home: Home, parts: Sequence[ProcessSpec]) -> None:
    """Start a supervisor for `parts` and wait until all are ready, saying how it goes.

    Raises:
        SuiteError: A part does not come up, or the supervisor ends; nothing is left running then.
    """
    write_plan(home.run / "plan.json", parts)
    (home.run / "state.json").unlink(missing_ok=True)
    log = home.log("supervisor")
    rotate(log)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "embedded.supervisor", "--home", str(home.path)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=ROOT,
            env={**os.environ, SUITE_VARIABLE: str(home.path), "PYTHONUNBUFFERED": "1"})  # fmt: skip
    try:
        _follow(home, process, [part.name for part in parts])
    except (SuiteError, KeyboardInterrupt):
        stop_suite(home)
        process.wait()
        raise


def _follow(home: Home, process: "subprocess.Popen[bytes]", names: list[str]) -> None:
    """Say what becomes ready, until everything is.

    Raises:
        SuiteError: A part failed or the supervisor ended.
    """
    said: set[str] = set()
    while len(said) < len(names):
        states = read_state(home)
        for state in states:
            if state.stage.is_up and state.name not in said:
                said.add(state.name)
                say(f"  {state.after_s or 0.0:5.1f} s  {state.name} {state.stage}")
            if state.stage is Stage.FAILED:
                raise failure(home, state)
        if process.poll() is not None:
            raise SuiteError(_with_log("the supervisor has ended", home, "supervisor"), part="supervisor")
        time.sleep(TICK_S)


def failure(home: Home, state: PartState) -> SuiteError:
    """What to tell about a part that did not come up."""
    return SuiteError(_with_log(f"{state.name} did not come up: it {state.note}", home, state.name), part=state.name)


def _with_log(text: str, home: Home, name: str) -> str:
    lines = "\n    ".join(last_lines(home.log(name)))
    return f"{text}\n\n    {lines}\n\nWhole log: {home.log(name)}"


def stands(home: Home) -> bool:
    """Whether a supervisor runs and every part has come up under it, even if one is being started again now."""
    states = read_state(home)
    complete = bool(states) and all(state.after_s is not None for state in states)
    return complete and recorded(home, "supervisor") is not None


def check_standing(home: Home) -> None:
    """Refuse to call a suite up of which a part is down for the moment.

    Raises:
        SuiteError: A part is not up; the supervisor goes on trying.
    """
    down = [state for state in read_state(home) if not state.stage.is_up]
    if down:
        told = "; ".join(
            f"{state.name} is {state.stage}, it {state.note} (log: {home.log(state.name)})" for state in down
        )
        raise SuiteError(f"the suite runs, but not all of it: {told}")


def where(settings: SuiteSettings) -> str:
    """Where the suite is and what to try: one line."""
    api = f"http://127.0.0.1:{settings.ports['METACOG_ROUTER_REST_PORT']}/v1"
    console = f"http://127.0.0.1:{settings.ports['METACOG_CONSOLE_PORT']}"
    question = '{"model": "metacog", "messages": [{"role": "user", "content": "Is 91 a prime number?"}]}'
    return (
        f"API {api}, console {console}; try: "
        f"curl -s {api}/chat/completions -H 'Content-Type: application/json' -d '{question}'"
    )


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Hold the lock of `up`: a second one waits, and then finds the suite up."""
    with (home.run / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
