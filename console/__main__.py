"""Runs the console as a process: `python -m console`."""

import aiohttp
import uvicorn

from chassis import log
from chassis.errors import ConfigurationInvalid
from chassis.serving.auth import check_keys_beyond_loopback
from chassis.serving.connections import http_config
from chassis.serving.health import Health
from chassis.serving.rest import problem
from chassis.serving.server import bound_socket, run
from chassis.settings import HttpSettings, is_loopback, read
from configuration.keys import read_keys
from configuration.suite import SuiteSettings
from console.app import build_app
from console.live_runs import LiveRuns
from console.replies.service_client import ServiceClient
from console.sessions import Sessions
from console.settings import Addresses, Settings
from console.site import Site


async def main() -> None:
    """Compose the console and serve it."""
    suite, settings, addresses = read(SuiteSettings), read(Settings), read(Addresses)
    http_settings = read(HttpSettings)
    log.configure("console", suite.log_level)
    keyring = read_keys(suite.keys_file)
    check_keys_beyond_loopback(settings.host, keyring, "METACOG_CONSOLE_HOST")
    has_login = settings.login == "always" or not is_loopback(settings.host)
    if has_login and not keyring:
        raise ConfigurationInvalid(
            "METACOG_CONSOLE_LOGIN is always, and no API keys are configured: set METACOG_KEYS_FILE"
        )
    sock = bound_socket(settings.host, settings.port, "METACOG_CONSOLE_PORT")
    lives = LiveRuns(most=settings.max_live, unwatched_s=settings.unwatched_s)
    async with aiohttp.ClientSession(auto_decompress=True, trust_env=False) as http:
        router = ServiceClient("router", addresses.router_url, http)
        delegation = ServiceClient("delegation service", addresses.delegation_url, http)
        site = Site(router=router, delegation=delegation, lives=lives, settings=settings, has_login=has_login)
        app = build_app(
            site,
            health=Health({"router": router.check}, {"delegation": delegation.check}, timeout_s=4.0),
            sessions=Sessions(keyring, lasting_s=settings.session_hours * 3600) if has_login else None,
            key=suite.peer_key.get_secret_value(),
            names=[*settings.allowed_hosts, *http_settings.hosts],
        )
        config = http_config(
            app,
            http_settings,
            error_response=lambda error, _: problem(error),
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        log.logger(__name__).info("serving", port=sock.getsockname()[1], login=has_login)
        try:
            await uvicorn.Server(config).serve(sockets=[sock])
        finally:
            await lives.close()


if __name__ == "__main__":
    run(main)
