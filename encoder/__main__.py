"""`python -m encoder` serves sentence vectors; the port answers at once, the model follows in some seconds."""

import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial

import uvicorn

from chassis import log
from chassis.errors import ConfigurationInvalid
from chassis.serving.connections import http_config
from chassis.settings import HttpSettings, read
from encoder.app import build_app, error_response
from encoder.errors import SettingsInvalid
from encoder.model import load, name_of
from encoder.settings import Settings, read_settings

GRACE_S = 10


def bound_socket(settings: Settings) -> socket.socket:
    """Return a socket on the port of `settings`.

    Raises:
        SettingsInvalid: The port is taken, or the address does not belong to this machine.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise SettingsInvalid(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; "
            "set METACOG_ENCODER_PORT or METACOG_ENCODER_HOST to another"
        ) from error
    return bound


def serve(settings: Settings, limits: HttpSettings) -> int:
    """Serve until SIGTERM or SIGINT; return 1 if the model cannot be loaded."""
    failed: list[bool] = []

    def on_failure() -> None:
        failed.append(True)
        signal.raise_signal(signal.SIGINT)  # uvicorn's own way to stop

    app = build_app(
        settings,
        name=name_of(settings.model_path),
        load=partial(load, settings.model_path, settings.threads),
        on_failure=on_failure,
    )
    config = http_config(app, limits, error_response=error_response, timeout_graceful_shutdown=GRACE_S)
    with bound_socket(settings) as bound, suppress(KeyboardInterrupt):  # uvicorn raises it again when it has stopped
        uvicorn.Server(config).run([bound])
    return 1 if failed else 0


def main() -> int:
    """Serve; return 0, or 1 after printing what is wrong."""
    log.configure("encoder")
    try:
        return serve(read_settings(os.environ), read(HttpSettings))
    except (SettingsInvalid, ConfigurationInvalid) as error:
        sys.stdout.write(error.message + "\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
