import asyncio

from chassis.errors import DatabaseUnavailable, PeerUnavailable
from chassis.serving.health import Health


async def fine() -> None:
    return


async def no_database() -> None:
    raise DatabaseUnavailable("PostgreSQL does not answer")


async def no_assigner() -> None:
    raise PeerUnavailable("assigner is down")


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_a_service_whose_parts_all_work_is_ready() -> None:
    report = await Health({"inference": fine}, {"database": fine}).report()

    assert report.ready
    assert report.parts == {"inference": "ok", "database": "ok"}


async def test_a_service_without_checks_is_ready() -> None:
    assert (await Health({}).report()).ready


async def test_without_an_essential_part_a_service_is_not_ready_and_states_why() -> None:
    report = await Health({"inference": no_assigner}, {"database": fine}).report()

    assert not report.ready
    assert report.parts["inference"] == "assigner is down"


async def test_another_part_may_be_down_while_the_service_is_ready() -> None:
    report = await Health({"inference": fine}, {"database": no_database}).report()

    assert report.ready
    assert report.parts["database"] == "PostgreSQL does not answer"


async def test_a_part_that_does_not_answer_is_down() -> None:
    report = await Health({"inference": hangs}, {"database": fine}, timeout_s=0.01).report()

    assert not report.ready
    assert report.parts == {"inference": "no answer within 0.01 s", "database": "ok"}


async def test_all_checks_run_at_once() -> None:
    met = asyncio.Barrier(2)

    async def meets_the_other() -> None:
        await met.wait()

    report = await Health({"one": meets_the_other}, {"other": meets_the_other}, timeout_s=5).report()

    assert report.parts == {"one": "ok", "other": "ok"}


async def test_a_service_that_is_stopping_is_not_ready() -> None:
    health = Health({"inference": fine})
    health.stopping = True

    report = await health.report()

    assert not report.ready
    assert report.parts == {"inference": "ok", "service": "stopping"}


async def test_parts_are_listed_by_name() -> None:
    report = await Health({"router": fine}, {"database": fine, "assigner": fine}).report()

    assert list(report.parts) == ["assigner", "database", "router"]


async def test_a_part_that_recovers_makes_the_service_ready_again() -> None:
    down = [True]

    async def sometimes() -> None:
        if down[0]:
            await no_assigner()

    health = Health({"inference": sometimes}, cached_s=0)
    before = await health.report()
    down[0] = False

    after = await health.report()

    assert (before.ready, after.ready) == (False, True)


async def test_callers_at_the_same_time_share_one_check() -> None:
    runs, may_end = [0], asyncio.Event()

    async def counted() -> None:
        runs[0] += 1
        await may_end.wait()

    health = Health({"inference": counted}, cached_s=0)
    callers = [asyncio.create_task(health.report()) for _ in range(20)]
    await asyncio.sleep(0)
    callers[0].cancel()
    may_end.set()
    reports = [await caller for caller in callers[1:]]

    assert runs == [1]
    assert all(report.ready for report in reports)


async def test_a_report_is_repeated_for_a_while() -> None:
    runs = [0]

    async def counted() -> None:
        runs[0] += 1

    health = Health({"inference": counted}, cached_s=60)
    for _ in range(20):
        await health.report()

    assert runs == [1]


async def test_stopping_is_seen_at_once_although_reports_are_repeated() -> None:
    health = Health({"inference": fine}, cached_s=60)
    before = await health.report()
    health.stopping = True

    assert (before.ready, (await health.report()).ready) == (True, False)
