"""Whether the process in this container is ready: a container's health check, in a few milliseconds.

Run as `python probe.py PORT/PATH`; exit status 0 when `PATH` answers 200. With METACOG_TLS_CERT_FILE it speaks TLS, and
shows that certificate.
"""

import os
import socket
import sys

TIMEOUT_S = 4.0


def secured(plain: socket.socket) -> socket.socket:
    """`plain` itself, or TLS on it where this container serves TLS.

    Whom it talks to is not checked: it is this container itself.
    """
    certificate = os.environ.get("METACOG_TLS_CERT_FILE")
    if not certificate:
        return plain
    import ssl  # here, for it takes longer than all the rest

    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate, os.environ["METACOG_TLS_KEY_FILE"])
    return context.wrap_socket(plain)


def main() -> int:
    """Ask once; 0 when ready, else 1 with the status line."""
    port, _, path = sys.argv[1].partition("/")
    try:
        with socket.create_connection(("127.0.0.1", int(port)), TIMEOUT_S) as plain, secured(plain) as line:
            line.settimeout(TIMEOUT_S)
            line.sendall(f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
            status = line.recv(64).split(b"\r\n", 1)[0].decode("latin-1")
    except OSError as error:
        status = str(error)
    if " 200 " in f"{status} ":
        return 0
    sys.stdout.write(f"{status}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
