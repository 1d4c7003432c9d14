"""10,000 profile updates from 8 processes, each delivered twice, all processes killed half-way and started again.

Checked as it goes: every update is in the history once, and each profile is the replay of its recorded order, bit for
bit. BENCH_UPDATES sets another size.
"""

import asyncio
import os
import sys

from chassis import database as db
from chassis.ids import new_id
from tests.support.profile_storm import storm
from tests.support.stack import Database

UPDATES = int(os.environ.get("BENCH_UPDATES", "10000"))
PROCESSES = 8


def main() -> None:
    """Run it."""
    with Database() as database:
        db.migrate("services.delegation", database.url)
        told = asyncio.run(storm(database.url, new_id()[-12:], updates=UPDATES, processes=PROCESSES))
    sys.stdout.write(
        f"{told.updates} updates of {told.profiles} profiles, {told.deliveries} deliveries and those before the kill, "
        f"{told.kills} processes killed half-way: {told.seconds:.1f} s "
        f"({told.deliveries / told.seconds:.0f} deliveries/s); {told.drifts} changes raised\n"
        "every update once; each profile is the replay of its recorded order, bit for bit\n"
    )


if __name__ == "__main__":
    main()
