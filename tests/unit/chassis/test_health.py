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

    health = Health({"inference": sometimes})
    before = await health.report()
    down[0] = False

    after = await health.report()

    assert (before.ready, after.ready) == (False, True)
