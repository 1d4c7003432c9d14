"""Models that no file lists: any name may be asked for, and what is kept for names is bounded."""

from collections.abc import AsyncIterator

import pytest

from configuration.suite import SuiteSettings
from inference import suite_models
from inference.models import MOST_UNLISTED, BackendModelClients


@pytest.fixture
async def models() -> AsyncIterator[BackendModelClients]:
    """The models of one server, without a file that lists them."""
    settings = SuiteSettings.model_construct(inference_url="http://ann:secret@127.0.0.1:1/v1", inference_model="small")
    found = await suite_models(settings)
    yield found
    await found.close()


async def test_after_any_number_of_made_up_names_another_name_may_still_be_asked_for(
    models: BackendModelClients,
) -> None:
    for number in range(3 * MOST_UNLISTED):
        models.named(f"made-up-{number}")

    assert models.named("large").model == "large"
    assert models.named("").model == "small"


async def test_the_client_of_a_model_that_is_used_is_kept_and_those_used_longest_ago_are_dropped(
    models: BackendModelClients,
) -> None:
    snapshot = models.latest()
    used, idle = snapshot.named("used"), snapshot.named("idle")
    for number in range(MOST_UNLISTED):
        snapshot.named(f"made-up-{number}")
        assert snapshot.named("used") is used

    assert snapshot.named("idle") is not idle


async def test_made_up_names_and_passwords_reach_no_metric(models: BackendModelClients) -> None:
    assert {models.latest().named(name).config.name for name in ("made-up", "other")} == {"unlisted"}
