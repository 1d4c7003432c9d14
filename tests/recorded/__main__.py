"""The recorder as a command.

PYTHONPATH=.:gen python -m tests.recorded record --checkout PATH --output FILE
PYTHONPATH=.:gen python -m tests.recorded replay --checkout PATH --recording FILE
"""

import argparse
import asyncio
import sys
from pathlib import Path

from tests.recorded.recorder import answers, compared, counted, read, report, say, write
from tests.recorded.renaming import Renames

HERE = Path(__file__).parent


def main() -> int:
    """Record or replay; 0, or 1 when a checkout answers otherwise than it was recorded."""
    options = _options()
    checkout = options.checkout.resolve()
    say(counted())
    if options.command == "record":
        got = asyncio.run(answers(checkout, Renames(), postgres_url=options.postgres_url))
        write(options.output, got)
        broken = [f"{name}: {each['broken']}" for name, each in got.items() if "broken" in each]
        say("\n".join([*broken, f"{options.output}: {options.output.stat().st_size} bytes"]))
        return 1 if broken else 0
    renames = Renames.read(options.renames)
    recording = read(options.recording)
    now = asyncio.run(answers(checkout, renames, postgres_url=options.postgres_url))
    found = compared(recording, now, renames)
    if options.output:
        write(options.output, now)
    report(found, options.shown)
    return 1 if found.different else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (("record", "make a recording"), ("replay", "compare a checkout with a recording")):
        command = commands.add_parser(name, help=about)
        command.add_argument("--checkout", type=Path, required=True, help="folder of the checkout that is asked")
        command.add_argument("--postgres-url", default="", help="a server that runs already, with pgvector")
        kept = HERE / "recording.json.gz" if name == "record" else None
        command.add_argument("--output", type=Path, help="file for what is answered", default=kept)
        if name == "replay":
            command.add_argument("--recording", type=Path, default=HERE / "recording.json.gz")
            command.add_argument("--renames", type=Path, default=HERE / "renames.yaml")
            command.add_argument("--shown", type=int, default=20, help="requests, and places in each, that are shown")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
