"""A request is a value; asking it sends it to a suite and returns what came back, as a JSON document."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import aiohttp
import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2, status_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.recorded.normal import Normaliser
from tests.recorded.renaming import Renames, Scope
from tests.recorded.suite import Suite

Body = dict[str, Any]
PATIENCE_S = 60.0
# Headers whose values are kept.
HEADERS = ("content-type", "retry-after", "x-should-retry", "www-authenticate", "allow", "x-metacog-run-id")
STREAM = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, in the spelling of the recorded commit.

    Attributes:
        id: Its identifier.
        to: Process that it goes to.
        kind: `rest`, `sse`, `grpc` or `cli`.
        method: HTTP method.
        path: HTTP path, with `${name}` for what was saved.
        query: Parameters of the path's query.
        body: JSON document of the body, or message of the call.
        raw: The body as text, for one that is no JSON document.
        headers: Further headers, or metadata.
        rpc: The call, as `package.Service/Method`.
        timeout_s: Deadline of the call [s].
        arguments: The command line, with `${name}` for what was saved.
        stdin: Standard input of the command.
        files: Files that the command may read, by name.
        keeps: Files that the command writes.
        settings: Environment of the command.
        save: What to keep of the response for later requests: a dotted path by name; of a stream, in its last event.
        pause_s: Time to wait before it, for what goes on in the background [s].
    """

    id: str
    to: str
    kind: str
    method: str = "POST"
    path: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    raw: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    rpc: str = ""
    timeout_s: float = PATIENCE_S
    arguments: Sequence[str] = ()
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    keeps: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    save: Mapping[str, str] = field(default_factory=dict)
    pause_s: float = 0.0

    @property
    def scope(self) -> Scope:
        """What rules are asked about it."""
        return Scope(self.id, self.kind, self.to)

    @property
    def asked(self) -> Body:
        """What identifies it in a recording."""
        line = {
            "rest": f"{self.method} {self.path}", "sse": f"{self.method} {self.path}", "grpc": self.rpc,
            "cli": " ".join(self.arguments),
        }[self.kind]  # fmt: skip
        return {"kind": self.kind, "to": self.to, "line": line}

    def renamed(self, renames: Renames) -> "Request":
        """The same request in the new spelling."""
        scope = self.scope
        return replace(
            self,
            path=renames.path(self.path, scope),
            query=renames.request(dict(self.query), scope),
            body=renames.request(self.body, scope),
            rpc=renames.rpc(self.rpc, scope),
            arguments=renames.arguments(self.arguments, scope),
            files={name: _file_renamed(text, renames, scope) for name, text in self.files.items()},
            settings={renames.setting(name): text for name, text in self.settings.items()},
            save={name: renames.saved_path(path, scope) for name, path in self.save.items()},
        )


def _file_renamed(text: str, renames: Renames, scope: Scope) -> str:
    """A file's text in the new spelling, where its lines or the whole of it are JSON."""
    try:
        return json.dumps(renames.request(json.loads(text), scope))
    except ValueError:
        pass
    try:
        return "".join(json.dumps(renames.request(json.loads(line), scope)) + "\n" for line in text.splitlines())
    except ValueError:
        return text


@dataclass
class Asker:
    """Sends requests to a suite.

    Attributes:
        suite: The suite.
        normal: Joins pieces of streams.
        session: HTTP connections.
        saved: What was kept of earlier responses, by name.
    """

    suite: Suite
    normal: Normaliser
    session: aiohttp.ClientSession
    saved: dict[str, str] = field(default_factory=dict)
    channels: dict[str, grpc.Channel] = field(default_factory=dict)
    pools: dict[str, descriptor_pool.DescriptorPool] = field(default_factory=dict)
    async_channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)

    async def ask(self, request: Request) -> Body:
        """What came back, not yet normalised."""
        match request.kind:
            case "grpc":
                got = await self._call(request)
            case "cli":
                got = await self._run(request)
            case _:
                got = await self._send(request)
        source = _source(got)
        for name, path in request.save.items():
            found = _at(source, path)
            if found is None:
                raise LookupError(f"{request.id}: {path} is not in {json.dumps(source)[:2000]}")
            self.saved[name] = str(found)
        return got

    async def close(self) -> None:
        """Close all connections."""
        for channel in self.channels.values():
            channel.close()
        for other in self.async_channels.values():
            await other.close()

    def _filled(self, found: Any) -> Any:  # noqa: ANN401 - a JSON document
        """`found` with what was saved in place of `${name}`."""
        if isinstance(found, str):
            return re.sub(r"\$\{(\w+)\}", lambda name: self.saved[name[1]], found)
        if isinstance(found, Mapping):
            return {name: self._filled(each) for name, each in found.items()}
        if isinstance(found, list | tuple):
            return [self._filled(each) for each in found]
        return found

    async def _send(self, request: Request) -> Body:
        url = self.suite.at[request.to].rest + self._filled(request.path)
        if request.query:
            url += "?" + urlencode(self._filled(request.query))
        headers = {**({"accept": STREAM} if request.kind == "sse" else {}), **request.headers}
        data = request.raw
        if data is None and request.body is not None:
            data = json.dumps(self._filled(request.body))
        if data is not None and "content-type" not in headers:
            headers["content-type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=request.timeout_s)
        async with self.session.request(request.method, url, data=data, headers=headers, timeout=timeout) as reply:
            told = {name: reply.headers[name] for name in HEADERS if name in reply.headers}
            text = await reply.text()
            got: Body = {"status": reply.status, "headers": told}
            if told.get("content-type", "").startswith(STREAM):
                return {**got, "stream": self.normal.stream(_events(text))}
            return {**got, "body": _document(text)}

    async def _call(self, request: Request) -> Body:
        """Make a gRPC call, with messages made from what reflection tells."""
        at = self.suite.at[request.to].grpc
        service, _, method = request.rpc.partition("/")
        try:
            # Reflection needs a key where there are keys; the same service without keys has the same contract.
            open_one = {"guarded": "router", "guarded-delegation": "delegation"}.get(request.to, request.to)
            found = self._pool(self.suite.at[open_one].grpc).FindServiceByName(service).methods_by_name[method]
        except KeyError:
            return {"code": "NOT_IN_REFLECTION", "message": request.rpc, "details": []}
        kind = message_factory.GetMessageClass(found.input_type)
        reply_kind = message_factory.GetMessageClass(found.output_type)
        channel = self.async_channels.setdefault(at, grpc.aio.insecure_channel(at))
        message = json_format.ParseDict(self._filled(request.body or {}), kind())
        keywords: Any = {"request_serializer": kind.SerializeToString, "response_deserializer": reply_kind.FromString}
        metadata = tuple(request.headers.items())
        try:
            if found.server_streaming:
                stream = channel.unary_stream(f"/{request.rpc}", **keywords)
                replies = [one async for one in stream(message, timeout=request.timeout_s, metadata=metadata)]
                events = [_event(_plain(one)) for one in replies]
                return {"code": "OK", "stream": self.normal.stream(events)}
            unary = channel.unary_unary(f"/{request.rpc}", **keywords)
            return {"code": "OK", "body": _plain(await unary(message, timeout=request.timeout_s, metadata=metadata))}
        except grpc.aio.AioRpcError as error:
            return _refusal(error)

    def _pool(self, at: str) -> descriptor_pool.DescriptorPool:
        """The contract that the server at `at` tells of itself."""
        if at not in self.pools:
            self.channels[at] = grpc.insecure_channel(at)
            self.pools[at] = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(self.channels[at]))
        return self.pools[at]

    async def _run(self, request: Request) -> Body:
        for name, text in request.files.items():
            self.suite.file(name).parent.mkdir(parents=True, exist_ok=True)
            self.suite.file(name).write_text(self._filled(text))
        arguments = self._filled(list(request.arguments))
        status, out, err = await self.suite.run(arguments, request.stdin, self._filled(request.settings))
        got: Body = {"status": status, "stdout": self._printed(out), "stderr": self._printed(err)}
        for name in request.keeps:
            path = self.suite.file(name)
            got.setdefault("files", {})[name] = self._printed(path.read_text()) if path.exists() else None
        return got

    def _printed(self, text: str) -> Any:  # noqa: ANN401 - a JSON document
        """What was printed: as a document, or a list of documents, where it is JSON; else as lines."""
        if text.lstrip().startswith(("{", "[")):
            try:
                return {"json": json.loads(text)}
            except ValueError:
                pass
            try:
                return {"json_lines": [json.loads(line) for line in text.splitlines()]}
            except ValueError:
                pass
        return self.normal.printed(text).splitlines()


def _document(text: str) -> Any:  # noqa: ANN401 - a JSON document
    try:
        return json.loads(text)
    except ValueError:
        return text


def _events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream by server-sent events; comments are left out."""
    events = []
    for block in re.split(r"\r?\n\r?\n", text):
        lines = [line.partition(":") for line in block.splitlines() if line and not line.startswith(":")]
        fields = [(name, value.removeprefix(" ")) for name, _, value in lines]
        data = "\n".join(value for name, value in fields if name == "data")
        if data:
            events.append((next((value for name, value in fields if name == "event"), ""), _document(data)))
    return events


def _event(message: Body) -> tuple[str, Any]:
    """A message of a stream as an event, where one field of it is set."""
    return next(iter(message.items())) if len(message) == 1 else ("", message)


def _plain(message: Any) -> Body:  # noqa: ANN401 - a message whose class is made at run time
    plain: Body = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return plain


def _refusal(refused: grpc.aio.AioRpcError) -> Body:
    """Code, message and details of a refused call."""
    trailing = {str(name): value for name, value in refused.trailing_metadata() or ()}
    told = status_pb2.Status.FromString(trailing.get("grpc-status-details-bin", b""))
    details = []
    for packed in told.details:
        info = error_details_pb2.ErrorInfo()
        if packed.Unpack(info):
            details.append({"reason": info.reason, "domain": info.domain, "metadata": dict(info.metadata)})
        else:
            details.append({"type": packed.type_url})
    return {"code": refused.code().name, "message": refused.details(), "details": details}


def _source(got: Body) -> Any:  # noqa: ANN401 - a JSON document
    """The document in which what is to be saved is looked for."""
    if "stream" in got:
        events = [data for _, data in got["stream"]["events"] if isinstance(data, dict)]
        return events[-1] if events else {}
    stdout = got.get("stdout")
    return stdout["json"] if isinstance(stdout, dict) and "json" in stdout else got.get("body")


def _at(found: Any, path: str) -> Any:  # noqa: ANN401 - a JSON document
    for part in path.split("."):
        if isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict):
            found = found.get(part)
        else:
            return None
    return found
