"""This module names the services of the suite, with the ports that they have by default."""

from collections.abc import Mapping

REST_PORTS: Mapping[str, int] = {"router": 8080, "assigner": 8081, "arbiter": 8082, "delegation": 8083}
GRPC_PORTS: Mapping[str, int] = {"router": 50051, "assigner": 50052, "arbiter": 50053, "delegation": 50054}
SERVICES = tuple(REST_PORTS)
# Those that the router calls.
PEERS = SERVICES[1:]
# Those that have tables, and so migrations.
WITH_SCHEMA = SERVICES
