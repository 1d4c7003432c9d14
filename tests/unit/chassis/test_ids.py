"""Names tell when they were made."""

import uuid

from chassis.ids import age_s, new_id


def test_a_name_reports_its_age() -> None:
    age = age_s(new_id())

    assert age is not None
    assert 0 <= age < 5


def test_a_name_that_was_not_made_here_has_no_age() -> None:
    assert age_s("nobody") is None
    assert age_s("") is None
    assert age_s(str(uuid.uuid4())) is None
