"""What a template sees of a message: what is not set is unknown, an enum is its word, and nothing else is changed."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from jinja2 import StrictUndefined, UndefinedError
from metacog.arbiter.v1.arbiter_pb2 import FAILURE_REGIME_SHARED_BIAS, Measures, SamplesDrawn
from metacog.common.v1.answer_pb2 import OUTCOME_ANSWERED
from metacog.common.v1.confidence_pb2 import CONFIDENCE_STATE_PRIOR
from metacog.common.v1.msv_pb2 import MSV
from metacog.router.v1.router_pb2 import FellBack, RouteResponse, Run

from console.replies.environment import MessageEnvironment


def shown(template: str, **values: object) -> str:
    """A rendered template."""
    return MessageEnvironment(undefined=StrictUndefined).from_string(template).render(**values)


def test_an_optional_number_that_is_not_set_is_none_and_a_zero_is_zero() -> None:
    assert shown("{{ run.confidence }}", run=Run()) == "None"
    assert shown("{{ run.confidence }}", run=Run(confidence=0.0)) == "0.0"
    assert shown("{{ run.confidence is none }}", run=Run(confidence=0.0)) == "False"


def test_an_optional_text_or_truth_value_that_is_not_set_is_none() -> None:
    assert shown("{{ drawn.leader }}", drawn=SamplesDrawn()) == "None"
    assert shown("{{ measures.correct }}", measures=Measures()) == "None"
    assert shown("{{ measures.correct }}", measures=Measures(correct=False)) == "False"


def test_a_message_that_is_not_set_is_none_and_false() -> None:
    assert shown("{% if run.route %}routed{% else %}{{ run.route }}{% endif %}", run=Run()) == "None"
    assert shown("{% if run.route %}routed{% endif %}", run=Run(route=RouteResponse())) == "routed"


def test_an_enum_is_its_word_and_none_where_it_states_nothing() -> None:
    run = Run(outcome=OUTCOME_ANSWERED, confidence_state=CONFIDENCE_STATE_PRIOR)

    assert shown("{{ run.outcome == 'ANSWERED' }} {{ run.confidence_state }}", run=run) == "True PRIOR"
    assert shown("{{ run.outcome }}", run=Run()) == "None"
    assert (
        shown("{{ m.failure_regimes|join }}", m=Measures(failure_regimes=[FAILURE_REGIME_SHARED_BIAS])) == "SHARED_BIAS"
    )


def test_a_map_is_a_dict_in_which_a_missing_key_adds_nothing() -> None:
    state = MSV(unknown_reasons={"experience": "nothing near"})

    template = "{{ state.unknown_reasons.get('conflict', '-') }} {{ state.unknown_reasons|length }} {{ state.parts }}"
    assert shown(template, state=state) == "- 1 {}"


def test_lists_texts_numbers_and_times_are_as_they_are() -> None:
    run = Run(
        answer="",
        confidence_labels=0,
        created_at=Timestamp(seconds=3),
        fallbacks=[FellBack(to_strategy="system1"), FellBack(to_strategy="vote")],
    )

    assert shown("[{{ run.answer }}] {{ run.confidence_labels }} {{ run.created_at.seconds }}", run=run) == "[] 0 3"
    assert shown("{{ run.fallbacks|map(attribute='to_strategy')|join(' ') }}", run=run) == "system1 vote"
    assert shown("{{ run.fallbacks|length }} {{ run.fallbacks[-1].to_strategy }}", run=run) == "2 vote"
    assert shown("{% if run.degraded_reasons %}degraded{% endif %}", run=run) == ""


def test_filters_with_an_attribute_see_the_same_of_a_message() -> None:
    runs = [Run(confidence=0.5), Run()]

    assert shown("{{ runs|map(attribute='confidence')|list }}", runs=runs) == "[0.5, None]"
    assert shown("{{ runs|rejectattr('confidence', 'none')|list|length }}", runs=runs) == "1"


@pytest.mark.parametrize("template", ["{{ run.no_such_field }}", "{{ run.HasField }}", "{{ run['no_such_field'] }}"])
def test_what_is_no_field_of_the_message_is_undefined(template: str) -> None:
    with pytest.raises(UndefinedError, match=r"no_such_field|HasField"):
        shown(template, run=Run())


def test_other_values_are_read_as_ever() -> None:
    assert shown("{{ plain.key }} {{ plain['key'] }} {{ plain.items()|list }}", plain={"key": 1}) == "1 1 [('key', 1)]"
