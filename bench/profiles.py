"""This benchmark delivers 10,000 profile updates twice from 8 processes, which are killed half-way and restarted.

It checks that every update is recorded once, and that each profile is the replay of its recorded order, bit for bit.
BENCH_UPDATES sets another size.
"""

import asyncio
import os
import sys

from chassis.ids import new_id
from chassis.schema import migrations
from tests.support.profile_storm import storm
from tests.support.stack import Database

UPDATES = int(os.environ.get("BENCH_UPDATES", "10000"))
PROCESSES = 8


def main() -> None:
    """Run the benchmark."""
    with Database() as database:
        migrations.migrate("services.delegation", database.url)
        result = asyncio.run(storm(database.url, new_id()[-12:], updates=UPDATES, processes=PROCESSES))
    sys.stdout.write(
        f"{result.updates} updates of {result.profiles} profiles, {result.deliveries} deliveries and those before "
        f"the kill, {result.kills} processes killed half-way: {result.seconds:.1f} s "
        f"({result.deliveries / result.seconds:.0f} deliveries/s); {result.drifts} drift events\n"
        "every update once; each profile is the replay of its recorded order, bit for bit\n"
    )


if __name__ == "__main__":
    main()
