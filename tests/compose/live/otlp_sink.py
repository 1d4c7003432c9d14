"""An OTLP collector for tests: each span as one line of JSON on standard output."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services


def plain(value: Any) -> object:  # noqa: ANN401 - any of OTLP's values
    """An attribute's value."""
    return getattr(value, value.WhichOneof("value"))


class Sink(services.TraceServiceServicer):
    """Says what it is sent."""

    def Export(self, request: Any, context: Any) -> Any:  # noqa: ANN401, N802 - gRPC's shape
        """Take spans."""
        for resource in request.resource_spans:
            service = next(plain(a.value) for a in resource.resource.attributes if a.key == "service.name")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    told = {
                        "service": service,
                        "trace": span.trace_id.hex(),
                        "span": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "name": span.name,
                        "attributes": {a.key: plain(a.value) for a in span.attributes},
                    }
                    sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        return messages.ExportTraceServiceResponse()


if __name__ == "__main__":
    server = grpc.server(ThreadPoolExecutor(4))
    services.add_TraceServiceServicer_to_server(Sink(), server)  # type: ignore[no-untyped-call]  # generated without types
    server.add_insecure_port("0.0.0.0:4317")
    server.start()
    server.wait_for_termination()
