"""The console as a process: `python -m console`."""

import uvicorn
from metacog.router.v1 import router_pb2, router_pb2_grpc

from chassis import log
from chassis.auth import Keyring, demand_keys_beyond_loopback
from chassis.health import Health
from chassis.peer import Peer
from chassis.serve import bound_socket, run
from chassis.settings import SuiteSettings, read
from chassis.wire import event
from console.app import build_app
from console.settings import Settings

TIMEOUT_S = 300.0


async def main() -> None:
    """Compose and serve."""
    suite, settings = read(SuiteSettings), read(Settings)
    log.configure("console", suite.log_level)
    demand_keys_beyond_loopback(settings.host, Keyring(), "METACOG_CONSOLE_HOST")
    sock = bound_socket(settings.host, settings.port, "METACOG_CONSOLE_PORT")
    router = Peer("router", suite.router_address, key=suite.peer_key.get_secret_value())
    stub = router_pb2_grpc.RouterServiceStub(router.channel)

    async def ask(question: str, strategy: str) -> dict[str, object]:
        request = router_pb2.AnswerRequest(query=question, strategy=strategy)
        finished: dict[str, object] = {}
        async for reply in router.stream(stub.Answer, request, timeout_s=TIMEOUT_S):
            name, data = event(reply)
            if name == "run_finished":
                finished = data["run"]
        return finished

    app = build_app(ask=ask, health=Health({"router": router.check}))
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5)
    try:
        await uvicorn.Server(config).serve(sockets=[sock])
    finally:
        await router.close()


if __name__ == "__main__":
    run(main)
