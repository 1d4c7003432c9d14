"""Project files that a question's text enters while it is answered, on System 1 and in a dialectic.

A question enters a file when a function of that file is called and one of its arguments (`self` and `cls` left out)
holds the text: as a string or as bytes, or inside lists, mappings, dataclasses and messages, at most `--depth` of them
around it. A prompt with the question in it holds it. What runs beside the request (the journal, which writes runs to
the database) does not count, nor does anything after the answer. A file that two services enter is one file.

    python -m bench.files_entered                      # or: make bench ARGS=files_entered
    python -m bench.files_entered --depth 0 --no-bytes # by another definition; also: `--self`, `--beside`, `--calls`
    python -m bench.files_entered --steps              # with every step of the way
    python -m bench.files_entered --checkout FOLDER    # the services of another checkout, by this script

The router and the assigner are the processes that users run, each started under a profile hook; PostgreSQL is real,
model server and encoder are scripted. The first request of each kind warms up and is not traced. The text has left a
file when the next call is into another one. Returns are counted for each service, in five ways:

    resumed    calls into a file that the text was in before, and not last; coroutines that go on are calls too
    calls      the same, each frame once
    functions  the same, each function once: repeated model calls repeat nothing
    edges      pairs of files (who calls, who is called) beyond the one that first led into each file
    back       those pairs by which the text comes back into a file that still waits for what it called
"""

import argparse
import base64
import contextlib
import contextvars
import dataclasses
import http.server
import inspect
import json
import os
import runpy
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from types import CodeType, FrameType, MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tests.support.models.llm_replies import Body, ScriptedChoice

ROOT = Path(__file__).resolve().parents[1]
DEPTH = 4
DEEPEST = 6
MOST_PARTS = 5_000  # of one argument; what is larger, a matrix say, holds no question further in
MARKER = "zanzibarquux"
WARM_UP = "How many legs has a spider?"
QUESTION = f"How many legs has the {MARKER}?"
OCTETS = (bytes, bytearray, memoryview)
NOT_TRACED = ("gen", "tests", "bench", "docs")
START_WITHIN_S = 90.0
SETTLE_S = 1.0

Plain = dict[str, Any]


# -- inside a service: this part imports nothing but the standard library --------------------------------------------


def parts_of(held: object) -> Iterator[object]:
    """Yield what `held` holds directly, where it is a container, a value or a message."""
    if isinstance(held, dict | MappingProxyType):
        yield from held.keys()
        yield from held.values()
    elif isinstance(held, list | tuple | set | frozenset | deque):
        yield from held
    elif dataclasses.is_dataclass(held) and not isinstance(held, type):
        yield from (getattr(held, each.name, None) for each in dataclasses.fields(held))
    elif hasattr(type(held), "SerializeToString"):
        yield held.SerializeToString().decode("utf-8", "ignore")  # type: ignore[attr-defined]
    elif hasattr(type(held), "model_fields"):
        yield from vars(held).values()


def depth_of(held: object, marker: str, kinds: type | tuple[type, ...] = str) -> int | None:
    """Return how many containers are around the nearest text with `marker` in `held`; None if there is none.

    Args:
        held: An argument.
        marker: What the text is known by.
        kinds: What counts as text: `str`, or `bytes` and the like.

    Example:
        >>> depth_of("an elephant", "elephant"), depth_of([{"content": "an elephant"}], "elephant"), depth_of(3, "e")
        (0, 2, None)
    """
    layer = [held]
    for depth in range(DEEPEST + 1):
        if any(isinstance(each, kinds) and _has(each, marker) for each in layer):
            return depth
        layer = [part for each in layer for part in parts_of(each)][:MOST_PARTS]
    return None


def _has(text: object, marker: str) -> bool:
    return marker in text if isinstance(text, str) else marker.encode() in bytes(text)  # type: ignore[call-overload]


@dataclass
class Call:
    """A call of a function of the project.

    Attributes:
        at: When, by the clock that all processes of the machine share [s].
        file: File of the function, relative to the checkout.
        function: Name of the function.
        caller: File of the nearest function of the project that led to it; empty for none.
        waiting: Whether that file is another one, and this one waits for it, or for what called it.
        resumed: Whether it is a coroutine or generator that goes on.
        beside: Whether it belongs to something that runs beside the request.
        texts: Depth of the text by argument, `self` left out.
        octets: The same for bytes.
        own: Depth of the text in `self`; None if it is not there.
    """

    at: float
    file: str
    function: str
    caller: str
    waiting: bool
    resumed: bool
    beside: bool
    texts: dict[str, int] = field(default_factory=dict)
    octets: dict[str, int] = field(default_factory=dict)
    own: int | None = None


class Tracer:
    """A profile hook that records the calls of functions of a checkout, while it is on."""

    def __init__(self, checkout: Path, marker: str) -> None:
        self._checkout = f"{checkout}{os.sep}"
        self._marker = marker
        self._files: dict[CodeType, str] = {}
        self.on = False
        self._begin()

    def _begin(self) -> None:
        self._seen: dict[int, FrameType] = {}  # held, so that no other frame gets the number of one of them
        self._inside: contextvars.ContextVar[bool] | None = None
        self.calls: list[Call] = []

    def switch(self, *, on: bool) -> list[Call]:
        """Record calls from here on, or no more, and return the calls recorded so far."""
        self.on = False
        calls = self.calls
        self._begin()
        self.on = on
        return calls

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Keep a call; called by the interpreter."""
        if self.on and event == "call" and (file := self._file(frame.f_code)):
            self._keep(frame, file)

    def _keep(self, frame: FrameType, file: str) -> None:
        callers = list(self._callers(frame))
        caller = callers[0] if callers else ""
        call = Call(
            at=time.monotonic(),
            file=file,
            function=frame.f_code.co_qualname,
            caller=caller,
            waiting=caller != file and file in callers,
            resumed=id(frame) in self._seen,
            beside=False,
        )
        self._seen[id(frame)] = frame
        self._look_into(frame, call)
        if (call.texts or call.octets) and self._inside is None:
            self._inside = contextvars.ContextVar("inside", default=False)
            self._inside.set(True)  # in this task, and in those that it starts
        call.beside = self._inside is None or not self._inside.get()
        self.calls.append(call)

    def _look_into(self, frame: FrameType, call: Call) -> None:
        """Note which arguments hold the text."""
        code, held = frame.f_code, frame.f_locals
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        for name in code.co_varnames[:count]:
            given = held.get(name)
            if name in ("self", "cls"):
                call.own = depth_of(list(_attributes(given)), self._marker)
                continue
            if (depth := depth_of(given, self._marker)) is not None:
                call.texts[name] = depth
            if (depth := depth_of(given, self._marker, OCTETS)) is not None:
                call.octets[name] = depth

    def _callers(self, frame: FrameType) -> Iterator[str]:
        outer = frame.f_back
        while outer is not None:
            if file := self._file(outer.f_code):
                yield file
            outer = outer.f_back

    def _file(self, code: CodeType) -> str:
        """The file of `code`, relative to the checkout; empty if it is none of the project's packages."""
        file = self._files.get(code)
        if file is None:
            path = code.co_filename
            file = path.removeprefix(self._checkout) if path.startswith(self._checkout) else ""
            package, inside, _ = file.partition(os.sep)
            traced = inside and file.endswith(".py") and package not in NOT_TRACED and not package.startswith(".")
            file = self._files[code] = file if traced else ""
        return file


def _attributes(held: object) -> Iterator[object]:
    yield from getattr(held, "__dict__", {}).values()
    for kind in type(held).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield getattr(held, name, None)


def serve_traced(module: str, marker: str) -> None:
    """Run `module` as a program under a tracer that lines on standard input switch on, and off with a report."""
    here = str(Path(__file__).parent)
    sys.path[:] = [os.getcwd(), *(path for path in sys.path if path != here)]
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tracer = Tracer(Path.cwd(), marker)

    def heed() -> None:
        for line in sys.stdin:
            calls = tracer.switch(on=line.strip() == "on")
            reports.write(json.dumps([dataclasses.asdict(call) for call in calls]) + "\n")
            reports.flush()

    threading.Thread(target=heed, daemon=True).start()
    sys.argv = [module]
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


# -- around the services ----------------------------------------------------------------------------------------------


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def environment(checkout: Path, settings: Mapping[str, object]) -> dict[str, str]:
    """Environment of a service of `checkout`, of what is set for metacog on this machine nothing."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("METACOG_")}
    paths = f"{checkout}{os.pathsep}{checkout / 'gen'}"
    own |= {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**own, **{name: str(text) for name, text in settings.items()}}


class Traced:
    """A service under a tracer; a context manager.

    Attributes:
        name: Name of the service.
        url: Address of its REST API.
    """

    def __init__(self, name: str, checkout: Path, settings: Mapping[str, object]) -> None:
        self.name = name
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the service
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--traced", f"services.{name}"],
            cwd=checkout,
            env=environment(checkout, {**settings, f"METACOG_{name.upper()}_REST_PORT": port}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> Self:
        until = time.monotonic() + START_WITHIN_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                log = self.log()
                self.__exit__()
                raise RuntimeError(f"{self.name} does not serve: {log}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def log(self) -> str:
        """The end of its log."""
        self._log.seek(0)
        return self._log.read()[-2000:]

    def trace(self) -> None:
        """Trace from here on."""
        self._sent("on")

    def traced(self) -> list[Call]:
        """Return the calls since `trace`, and turn the tracer off."""
        return [Call(**each) for each in self._sent("off")]

    def _sent(self, line: str) -> list[Plain]:
        to, back = _pipe(self._process.stdin), _pipe(self._process.stdout)
        to.write(line + "\n")
        to.flush()
        calls: list[Plain] = json.loads(back.readline())
        return calls

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


def _pipe(end: IO[str] | None) -> IO[str]:
    if end is None:
        raise RuntimeError("the process has no such pipe")
    return end


class _Vectors(http.server.BaseHTTPRequestHandler):
    """An embeddings server for which all texts are the same."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List one model."""
        self._reply({"object": "list", "data": [{"id": "all-MiniLM-L6-v2", "object": "model"}]})

    def do_POST(self) -> None:
        """Answer one vector for each text."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        vector = [0.05] * 384
        coded = base64.b64encode(struct.pack("<384f", *vector)).decode()
        given = coded if asked.get("encoding_format") == "base64" else vector
        data = [{"object": "embedding", "index": at, "embedding": given} for at in range(len(asked["input"]))]
        self._reply({"object": "list", "model": "all-MiniLM-L6-v2", "data": data})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _reply(self, document: Plain) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def encoder() -> Iterator[str]:
    """URL of a scripted embeddings server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Vectors) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def mind(*, sure: bool) -> "Callable[[Body], Sequence[str | ScriptedChoice]]":
    """A model that is sure of its answers and finds nothing urgent, so that System 1 answers; or the contrary."""
    from tests.support.models.llm_replies import ScriptedChoice, schema_of

    def answer(body: "Body") -> "Sequence[str | ScriptedChoice]":
        count = body.get("n") or 1
        if schema := schema_of(body):
            return [json.dumps(_rating(schema, 5 if sure else 90))] * count
        if body.get("logprobs") and body.get("max_tokens") == 1:
            yes = -0.01 if sure else -4.0
            return [ScriptedChoice("Yes" if sure else "No", instead={"Yes": yes, "No": -4.01 - yes})] * count
        if count > 1:
            return ["8"] * count if sure else [f"{number}" for number in range(count)]
        return ["It has eight.\nFinal Answer: 8"]

    return answer


def _rating(schema: Plain, level: int) -> Plain:
    """A document that follows `schema`, with `level` for each number of each list."""
    found: Plain = {}
    for name, each in schema["properties"].items():
        if each.get("type") == "array":
            found[name] = [level + at % 2 for at in range(each.get("minItems", 1))]
        else:
            found[name] = level if each.get("type") in ("number", "integer") else each.get("enum", ["word"])[0]
    return found


def ask(url: str, model: str, question: str) -> Plain:
    """Return the answer of the router at `url`."""
    body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 256}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer: Plain = json.loads(reply.read())
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"the router answered {error.code}: {error.read().decode()}") from error
    return answer


# -- what was measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Definition:
    """An entry says that a question enters a file.

    Attributes:
        depth: Most containers around the text.
        octets: Whether bytes with the text count.
        own: Whether what `self` holds counts.
        beside: Whether what runs beside the request or after it counts.
        every: Whether every call counts, whatever its arguments.
    """

    depth: int = DEPTH
    octets: bool = True
    own: bool = False
    beside: bool = False
    every: bool = False

    def arguments(self, call: Call) -> list[str]:
        """The arguments of `call` that bring the text in."""
        named = {**(call.octets if self.octets else {}), **call.texts}
        if self.own and call.own is not None:
            named["self"] = call.own
        return [name for name, depth in named.items() if depth <= self.depth]

    def entries(self, calls: Sequence[Call], answered: float, *, resumed: bool = False) -> list[Call]:
        """Those of `calls` by which the text enters a file, in their order."""
        return [
            call
            for call in calls
            if (resumed or not call.resumed)
            and (self.beside or (call.at <= answered and (self.every or not call.beside)))
            and (self.every or self.arguments(call))
        ]

    def __str__(self) -> str:
        if self.every:
            return "every call until the answer, whatever its arguments"
        kinds = "strings, bytes" if self.octets else "strings"
        more = [", in self too"] * self.own + [", also beside and after"] * self.beside
        return f"{kinds}, {self.depth} deep{''.join(more)}"


VARIANTS = (
    *(Definition(depth, octets=False) for depth in range(DEEPEST + 1)),
    *(Definition(depth) for depth in range(DEEPEST + 1)),
    *(Definition(depth, own=True) for depth in range(DEEPEST + 1)),
    Definition(beside=True),
    Definition(every=True),
)


@dataclass(frozen=True)
class Measured:
    """One traced request.

    Attributes:
        name: What was asked for.
        answered: When its answer was there [s].
        calls: The calls, by service.
    """

    name: str
    answered: float
    calls: Mapping[str, Sequence[Call]]

    def entries(self, by: Definition, *, resumed: bool = False) -> dict[str, list[Call]]:
        """Return the files that the question entered, by service."""
        found = {name: by.entries(calls, self.answered, resumed=resumed) for name, calls in self.calls.items()}
        return {name: entries for name, entries in found.items() if entries}

    def files(self, by: Definition) -> set[str]:
        """The files that it entered, in all services together."""
        return {call.file for entries in self.entries(by).values() for call in entries}


def path_of(entries: Sequence[Call]) -> list[str]:
    """The files in the order in which they are entered, each once for calls that follow one another."""
    files = [call.file for call in entries]
    return files[:1] + [after for before, after in pairwise(files) if after != before]


def returns_by_calls(entries: Sequence[Call]) -> int:
    """Calls into a file that the text was in before, and not last."""
    path = path_of(entries)
    return len(path) - len(set(path))


def returns_by_functions(entries: Sequence[Call]) -> int:
    """The same, of each function only the first call."""
    return returns_by_calls(list({(call.file, call.function): call for call in reversed(entries)}.values())[::-1])


def returns_by_edges(entries: Sequence[Call]) -> int:
    """Pairs of files, who calls and who is called, beyond the one that first led into each file."""
    edges = {(call.caller, call.file) for call in entries if call.file != call.caller}
    return len(edges) - len({file for _, file in edges})


def returns_back(entries: Sequence[Call]) -> int:
    """Pairs of files, who calls and who is called, where the one that is called still waits for the other."""
    return len({(call.caller, call.file) for call in entries if call.waiting})


RETURNS: Mapping[str, Callable[[Sequence[Call]], int]] = {
    "calls": returns_by_calls,
    "functions": returns_by_functions,
    "edges": returns_by_edges,
    "back": returns_back,
}


def returns(measured: Measured, by: Definition) -> dict[str, int]:
    """The returns to files that were left, by each way of counting, all services together."""
    entered, raw = measured.entries(by).values(), measured.entries(by, resumed=True).values()
    resumed = {"resumed": sum(map(returns_by_calls, raw))}
    return resumed | {name: sum(map(count, entered)) for name, count in RETURNS.items()}


def summary(all_measured: Sequence[Measured], chosen: Definition) -> str:
    """Return the files entered by each definition, one line a definition."""
    lines = [f"{'files entered':<52}" + "".join(f"{measured.name:>28}" for measured in all_measured)]
    for by in dict.fromkeys((*VARIANTS, chosen)):
        cells = [_counted(measured, by) for measured in all_measured]
        lines.append(f"{'> ' if by == chosen else '  '}{by!s:<50}" + "".join(f"{cell:>28}" for cell in cells))
    return "\n".join(lines)


def _counted(measured: Measured, by: Definition) -> str:
    each = [len({call.file for call in entries}) for entries in measured.entries(by).values()]
    both = len(measured.files(by))
    return f"{both} = {' + '.join(map(str, each))}" + (f" - {sum(each) - both}" if len(each) > 1 else "")


def described(measured: Measured, by: Definition, *, steps: bool) -> str:
    """Return what one request entered: file by file in the order of first entry, and with `steps` the whole way."""
    counts = ", ".join(f"{count} {name}" for name, count in returns(measured, by).items())
    lines = [f"{measured.name}: {len(measured.files(by))} files; returns: {counts}"]
    for name, entries in measured.entries(by).items():
        lines.append(f"\n  {name}: who calls, and with which arguments\n")
        for number, file in enumerate(dict.fromkeys(call.file for call in entries), start=1):
            lines += _entered(number, file, [call for call in entries if call.file == file], by)
        lines.append(f"\n  {name}: ways back\n")
        lines += dict.fromkeys(f"    {call.caller} > {call.file} {call.function}" for call in entries if call.waiting)
        if steps:
            lines.append(f"\n  {name}: every step\n")
            lines += _steps(entries)
    return "\n".join(lines)


def _entered(number: int, file: str, entries: Sequence[Call], by: Definition) -> Iterator[str]:
    callers = dict.fromkeys(call.caller or "(outside)" for call in entries if call.caller != file)
    yield f"    {number:>3}  {file:<50} < {', '.join(callers) or '(itself)'}"
    for function in dict.fromkeys(call.function for call in entries):
        calls = [call for call in entries if call.function == function]
        names = dict.fromkeys(name for call in calls for name in by.arguments(call))
        yield f"             {function}({', '.join(names)})" + (f" x{len(calls)}" if len(calls) > 1 else "")


def _steps(entries: Sequence[Call]) -> Iterator[str]:
    numbers = {file: number for number, file in enumerate(dict.fromkeys(call.file for call in entries), start=1)}
    step: list[str] = []
    for call, after in zip_longest(entries, entries[1:]):
        step.append(call.function)
        if after is None or after.file != call.file:
            yield f"    {numbers[call.file]:>3}  {call.file:<50} {', '.join(dict.fromkeys(step))}"
            step = []


# -- the measurement --------------------------------------------------------------------------------------------------


def measure(checkout: Path) -> list[Measured]:
    """Answer a question on System 1 and in a dialectic with the services of `checkout`, and return what was called."""
    from tests.support.models.scripted_llm import ScriptedLLM
    from tests.support.stack import Database

    with (
        tempfile.TemporaryDirectory(prefix="mc-") as home,
        Database() as database,
        ScriptedLLM() as llm,
        encoder() as embeddings,
    ):
        settings: Plain = {
            "METACOG_HOME": home,
            "METACOG_DATABASE_URL": database.url,
            "METACOG_INFERENCE_URL": f"{llm.url}/v1",
            "METACOG_INFERENCE_MODEL": llm.model,
            "METACOG_ENCODER_URL": embeddings,
            "METACOG_ASSIGNER_ADDRESS": f"127.0.0.1:{(assigning := free_port())}",
            "METACOG_ASSIGNER_GRPC_PORT": assigning,
            "METACOG_ROUTER_GRPC_PORT": free_port(),
            # Beside votes the dialectic is asked only where answers cannot be compared; that enters two files more.
            "METACOG_ROUTER_SYSTEM_TWO": "dialectic",
        }
        migrate = [sys.executable, "-m", "services.router", "migrate"]
        env = environment(checkout, settings)
        subprocess.run(migrate, cwd=checkout, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        with Traced("assigner", checkout, settings) as assigner, Traced("router", checkout, settings) as router:
            measured = []
            for name, model, sure, strategy in (
                ("System 1", "metacog", True, "system1"),
                ("dialectic, decided", "metacog", False, "dialectic"),
                ("dialectic, named", "metacog/dialectic", True, "dialectic"),
            ):
                llm.answer = mind(sure=sure)
                measured.append(_traced((router, assigner), name, model, strategy))
    return measured


def _traced(services: Sequence[Traced], name: str, model: str, strategy: str) -> Measured:
    ask(services[0].url, model, WARM_UP)
    time.sleep(SETTLE_S)
    for service in services:
        service.trace()
    answer = ask(services[0].url, model, QUESTION)
    answered = time.monotonic()
    time.sleep(SETTLE_S)
    if strategy not in (reported := json.dumps(answer.get("metacog"))):
        raise RuntimeError(f"{name}: another strategy answered: {reported}")
    return Measured(name, answered, {service.name: service.traced() for service in services})


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    first = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m bench.files_entered", description=first)
    parser.add_argument("--checkout", type=Path, default=ROOT, help="measure the services of this checkout")
    parser.add_argument("--depth", type=int, default=DEPTH, help=f"most containers around the text, 0 to {DEEPEST}")
    parser.add_argument("--bytes", action=argparse.BooleanOptionalAction, default=True, help="count bytes too")
    parser.add_argument("--self", action="store_true", help="count what the object of a method holds")
    parser.add_argument("--beside", action="store_true", help="count what runs beside the request or after it")
    parser.add_argument("--calls", action="store_true", help="count every call until the answer")
    parser.add_argument("--steps", action="store_true", help="print every step of the way")
    parser.add_argument("--traced", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, and print."""
    given = arguments()
    if given.traced:
        serve_traced(given.traced, MARKER)
        return
    chosen = Definition(given.depth, octets=given.bytes, own=given.self, beside=given.beside, every=given.calls)
    measured = measure(given.checkout.resolve())
    parts = [summary(measured, chosen), *(described(each, chosen, steps=given.steps) for each in measured)]
    sys.stdout.write("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
