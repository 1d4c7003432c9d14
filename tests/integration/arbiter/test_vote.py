"""Votes over scripted models whose answers are known, by REST and by gRPC."""

import threading
from collections.abc import AsyncIterator, Mapping, Sequence

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

from chassis import telemetry
from configuration.agents import AgentConfig
from tests.support.apis import Api, ApiError, Body, Events, RestApi, RpcApi
from tests.support.arbiter import ARBITER, arbiter_at, sample_text
from tests.support.models.scripted_llm import ErrorReply, Hangup, ScriptedLLM, Stall

QUESTION = "What is 2 + 2?"
PROGRAM = (
    "```python\ndef main():\n    print('two and two:')\n    print(2 + 2)\n\nif __name__ == '__main__':\n    main()\n```"
)


def answers(*given: str | None) -> list[str]:
    return [sample_text(answer) for answer in given]


def agents_on(models: Mapping[str, ScriptedLLM]) -> list[AgentConfig]:
    """An agent for each model, of the same name."""
    return [AgentConfig(id=name, model=name) for name in models]


class Spoken:
    """Returns the next text for each request; requests for a program get `program`."""

    def __init__(self, texts: Sequence[str], program: str = PROGRAM) -> None:
        self._texts = list(texts)
        self._program = program

    def __call__(self, body: Body) -> Sequence[str]:
        if "one complete Python program" in str(body["messages"][-1]["content"]):
            return [self._program]
        return [self._texts.pop(0)]


@pytest.fixture(params=["rest", "rpc"])
async def api(request: pytest.FixtureRequest, scripted: ScriptedLLM) -> AsyncIterator[Api]:
    """An arbiter whose models write no programs, by each of its APIs."""
    async with arbiter_at(scripted, programs=False) as running:
        yield RestApi(running.rest, ARBITER) if request.param == "rest" else RpcApi(running.grpc, ARBITER)


@pytest.fixture
async def rpc(scripted: ScriptedLLM) -> AsyncIterator[RpcApi]:
    """An arbiter whose models may write programs."""
    async with arbiter_at(scripted) as running:
        yield RpcApi(running.grpc, ARBITER)


def of(events: Events, name: str) -> list[Body]:
    return [data for each, data in events if each == name]


async def test_two_that_agree_end_the_vote(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("5", "4", "4.0", "5"))

    end = await api.ask("Vote", question=QUESTION, seed=7)

    assert (end["outcome"], end["stop_reason"], end["winner"]) == ("DECIDED", "AGREED", "4")
    assert [vote["answer"] for vote in end["votes"]] == ["5", "4", "4"]
    assert [vote["changed_lead"] for vote in end["votes"]] == [True, False, True]
    assert [(group["answer"], group["votes"]) for group in end["groups"]] == [("4", [1, 2]), ("5", [0])]
    assert (end["asked"], end["invalid"], end["usage"]["generations"]) == (3, 0, 3)
    assert end["answer"] == sample_text("4")  # the text that holds it, never the canonical form
    assert (end["degraded"], end["degraded_reasons"]) == (False, [])


async def test_votes_with_different_units_are_different_answers(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("10", "10 miles", "10 km", "10,000 m"))

    end = await api.ask("Vote", question="How far is it?", answer_type="NUMBER", agree=3, seed=7)

    found = [(group["answer"], group["votes"], group["without_unit"]) for group in end["groups"]]
    assert found == [("10 km", [0, 2, 3], [0]), ("10 mi", [1], [])]
    assert [vote["changed_lead"] for vote in end["votes"]] == [True, False, False, True]  # the first changes its group
    assert (end["outcome"], end["winner"], end["answer"]) == ("DECIDED", "10 km", sample_text("10 km"))


async def test_two_currencies_are_two_answers(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("5 euros", "$5", "5 EUR"))

    end = await api.ask("Vote", question="How much is it?", answer_type="NUMBER", seed=7)

    assert [(group["answer"], group["votes"]) for group in end["groups"]] == [("5 EUR", [0, 2]), ("5 USD", [1])]


async def test_the_draft_is_the_first_vote_and_costs_nothing_more(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4"))

    end = await api.ask("Vote", question=QUESTION, draft={"text": "It is 4.", "model": "small", "completion_tokens": 5})

    assert (end["outcome"], end["asked"], end["usage"]["generations"]) == ("DECIDED", 2, 1)
    first = end["votes"][0]
    assert (first["mode"], first["model"], first["completion_tokens"], first["answer"]) == ("DRAFT", "small", 5, "4")
    assert end["answer"] == "It is 4."
    assert end["answer_type"] == "NUMBER"  # inferred


async def test_a_draft_without_an_answer_is_an_invalid_vote(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4", "4"))

    end = await api.ask(
        "Vote", question=QUESTION, answer_type="NUMBER", draft={"text": "I do not know.", "model": "small"}
    )

    assert [vote["answer"] for vote in end["votes"]] == [None, "4", "4"]
    assert end["votes"][0]["invalid_reason"] == "no answer of this type could be read from the text"
    assert (end["invalid"], end["outcome"]) == (1, "DECIDED")


async def test_a_text_that_is_too_long_to_be_compared_is_an_invalid_vote(api: Api, scripted: ScriptedLLM) -> None:
    ramble = "It is the one that was built first and then rebuilt by the second king of that name"
    scripted.answer = Spoken([f"Final Answer: {ramble}", *answers("the old tower", "The Old Tower.")])

    end = await api.ask("Vote", question="Which tower is it?", answer_type="TEXT")

    assert [vote["answer"] for vote in end["votes"]] == [None, "old tower", "old tower"]
    assert end["votes"][0]["invalid_reason"].startswith("the answer is too long to be compared; 12 words")


async def test_five_different_answers_are_undecided_and_the_first_is_shown(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("1", "2", "3", "4", "5"))

    end = await api.ask("Vote", question=QUESTION)

    assert (end["outcome"], end["stop_reason"], end["winner"]) == ("UNDECIDED", "MOST_ASKED", "1")


async def test_no_valid_vote_is_an_abstention_with_a_reason(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers(None, None, None, None, None))

    end = await api.ask("Vote", question=QUESTION, answer_type="NUMBER")

    assert (end["outcome"], end["stop_reason"], end["winner"], end["answer"]) == ("ABSTAINED", "OUT_OF_REACH", None, "")
    assert (end["asked"], end["invalid"]) == (4, 4)  # a fifth could not make two
    assert end["degraded_reasons"] == ["NO_VALID_ANSWER: no valid answer could be obtained"]


async def test_every_vote_is_an_event(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4", "4"))

    events = await api.events("Vote", question=QUESTION, run_id="r1")

    assert [name for name, _ in events] == ["vote_started", "vote_cast", "vote_cast", "vote_finished"]
    [started] = of(events, "vote_started")
    assert (started["agree"], started["most"], started["ahead"], started["run_id"]) == (2, 5, 1, "r1")
    assert [(one["agent"], one["mode"]) for one in started["sources"]] == [("", "REASONED")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"agree": 3, "most": 2}, "INVALID_VOTE_RULE"),
        ({"ahead": 6}, "INVALID_VOTE_RULE"),
        ({"most": 65}, "MALFORMED_REQUEST"),
        ({"sources": [{"agent": "nobody"}]}, "UNKNOWN_AGENT"),
        ({"question": ""}, "MALFORMED_REQUEST"),
        ({"tests": "assert f() == 1"}, "MALFORMED_REQUEST"),
        ({"tests": "assert f() == 1", "answer_type": "CODE"}, "SANDBOX_UNAVAILABLE"),
    ],
)
async def test_a_vote_that_cannot_be_held_is_rejected_by_name(api: Api, fields: Body, reason: str) -> None:
    with pytest.raises(ApiError) as raised:
        await api.ask("Vote", **{"question": QUESTION, **fields})

    assert raised.value.reason == reason


async def test_votes_ahead_are_asked_for_at_once_and_those_too_many_are_called_off(
    api: Api, scripted: ScriptedLLM
) -> None:
    scripted.answer = Spoken(answers("4", "4"))
    scripted.fault(None, None, Stall())

    end = await api.ask("Vote", question=QUESTION, ahead=3, most=3)

    assert (end["outcome"], end["asked"], len(end["votes"])) == ("DECIDED", 3, 2)
    await scripted.until(lambda llm: llm.in_flight == 0)


async def test_three_sources_vote_in_the_order_of_their_record() -> None:
    with ScriptedLLM() as poor, ScriptedLLM() as good:
        poor.answer, good.answer = Spoken(answers("5")), Spoken(answers("4", "4"))
        models = {"poor": poor, "good": good}
        async with arbiter_at(good, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "poor", "competence": 0.3}, {"agent": "good", "competence": 0.8}]
            end = await RestApi(running.rest, ARBITER).ask("Vote", question=QUESTION, sources=sources)

    assert [vote["agent"] for vote in end["votes"]] == ["good", "poor", "good"]
    assert end["winner"] == "4"


async def test_recorded_competences_order_the_services_own_sources() -> None:
    with ScriptedLLM() as poor, ScriptedLLM() as good:
        poor.answer, good.answer = Spoken(answers("5")), Spoken(answers("4", "4"))
        models = {"poor": poor, "good": good}
        async with arbiter_at(
            good, agents_on(models), others=models, programs=False, solver_agents=["poor", "good"]
        ) as running:
            recorded = [{"agent": "good", "competence": 0.8}, {"agent": "poor", "competence": 0.3}]
            end = await RestApi(running.rest, ARBITER).ask(
                "Vote", question=QUESTION, competences=recorded, draft={"text": "It is 6.", "model": "m"}
            )

    assert [(vote["agent"], vote["mode"]) for vote in end["votes"]] == [
        ("", "DRAFT"),
        ("good", "REASONED"),
        ("poor", "REASONED"),
        ("good", "REASONED"),
    ]


async def test_a_tie_is_won_by_the_source_with_the_better_record() -> None:
    with ScriptedLLM() as poor, ScriptedLLM() as good:
        poor.answer, good.answer = Spoken(answers("5")), Spoken(answers("4"))
        models = {"poor": poor, "good": good}
        async with arbiter_at(good, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "poor", "competence": 0.3}, {"agent": "good", "competence": 0.8}]
            end = await RestApi(running.rest, ARBITER).ask("Vote", question=QUESTION, sources=sources, most=2)

    assert (end["winner"], end["outcome"]) == ("4", "UNDECIDED")
    assert [group["log_odds"] for group in end["groups"]] == [
        pytest.approx(1.3863, abs=1e-4),
        pytest.approx(-0.8473, abs=1e-4),
    ]


@pytest.mark.parametrize("fault", [Hangup(), ErrorReply(503, "down")], ids=["hangs up", "is down"])
async def test_a_source_that_fails_is_left_out_and_the_others_go_on(fault: Hangup | ErrorReply) -> None:
    with ScriptedLLM() as gone, ScriptedLLM() as there:
        gone.fault(*[fault] * 9)
        there.answer = Spoken(answers("4", "4"))
        models = {"gone": gone, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "gone"}, {"agent": "there"}]
            end = await RpcApi(running.grpc, ARBITER).ask("Vote", question=QUESTION, sources=sources)

    assert (end["outcome"], end["winner"], end["asked"]) == ("DECIDED", "4", 3)
    assert end["left_out"][0].startswith("gone reasoned: BACKEND_")
    assert end["degraded_reasons"][0].startswith("SOURCE_LEFT_OUT: gone reasoned: BACKEND_")


async def test_a_source_that_hangs_is_named_and_does_not_take_the_time_of_the_others() -> None:
    with ScriptedLLM() as frozen, ScriptedLLM() as there:
        frozen.fault(*[Stall()] * 9)
        there.answer = Spoken(answers("4", "4"))
        models = {"frozen": frozen, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            end = await RpcApi(running.grpc, ARBITER).ask(
                "Vote",
                question=QUESTION,
                sources=[{"agent": "frozen"}, {"agent": "there"}],
                envelope={"timeout_ms": 12_000},
            )

    assert (end["outcome"], end["winner"], end["asked"], len(end["votes"])) == ("DECIDED", "4", 3, 2)
    assert end["left_out"] == ["frozen reasoned: no answer within its share of the time"]
    assert end["degraded_reasons"] == [f"SOURCE_LEFT_OUT: {end['left_out'][0]}"]
    assert not end["budget_exhausted"]
    assert len(frozen.bodies) == 1  # it is not asked again


async def test_what_was_asked_valid_agreed_and_spent_is_counted() -> None:
    names = [
        ("metacog_votes_total", {"outcome": "UNDECIDED", "stop_reason": "NO_SOURCE"}),
        ("metacog_votes_asked_total", {}),
        ("metacog_votes_cast_total", {"mode": "REASONED", "valid": "true"}),
        ("metacog_votes_cast_total", {"mode": "REASONED", "valid": "false"}),
        ("metacog_vote_tokens_total", {"mode": "REASONED"}),
        ("metacog_vote_agreement_count", {}),
        ("metacog_vote_agreement_sum", {}),
    ]

    def counted() -> list[float]:
        return [REGISTRY.get_sample_value(name, labels) or 0.0 for name, labels in names]

    before = counted()
    with ScriptedLLM() as frozen, ScriptedLLM() as there:
        frozen.fault(*[Stall()] * 9)
        there.answer = Spoken(answers("4", None, "5"))
        models = {"frozen": frozen, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "frozen"}, {"agent": "there"}]
            end = await RpcApi(running.grpc, ARBITER).ask(
                "Vote", question=QUESTION, sources=sources, most=4, envelope={"timeout_ms": 12_000}
            )

    tokens = sum(vote["completion_tokens"] for vote in end["votes"])
    gained = [after - was for after, was in zip(counted(), before, strict=True)]
    assert gained == pytest.approx([1, 4, 2, 1, tokens, 1, 0.5])
    assert tokens > 0


async def test_a_vote_with_an_answer_does_not_wait_to_the_end_of_its_time_for_a_source_that_hangs() -> None:
    with ScriptedLLM() as frozen, ScriptedLLM() as there:
        frozen.fault(*[Stall()] * 9)
        there.answer = Spoken(answers("4", "5", "6"))
        models = {"frozen": frozen, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            end = await RpcApi(running.grpc, ARBITER).ask(
                "Vote",
                question=QUESTION,
                sources=[{"agent": "frozen"}, {"agent": "there"}],
                most=4,
                envelope={"timeout_ms": 12_000},
            )

    assert (end["outcome"], end["stop_reason"], end["budget_exhausted"]) == ("UNDECIDED", "NO_SOURCE", False)
    assert (end["winner"], end["asked"], len(end["votes"])) == ("4", 4, 3)
    assert end["left_out"] == ["frozen reasoned: no answer within its share of the time"]


async def test_a_vote_that_comes_late_counts_and_its_source_is_not_left_out() -> None:
    with ScriptedLLM() as slow, ScriptedLLM() as there:
        asked = threading.Event()

        def after_the_other(_: Body) -> Sequence[str]:
            assert asked.wait(30)
            return answers("4")

        def there_answers(_: Body) -> Sequence[str]:
            asked.set()
            return answers("5") if len(there.bodies) == 1 else answers("4")

        slow.answer, there.answer = after_the_other, there_answers
        models = {"slow": slow, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "slow"}, {"agent": "there"}]
            end = await RpcApi(running.grpc, ARBITER).ask(
                "Vote", question=QUESTION, sources=sources, envelope={"timeout_ms": 12_000}
            )

    assert (end["outcome"], end["winner"], end["left_out"], end["degraded"]) == ("DECIDED", "4", [], False)
    assert "slow" in [vote["agent"] for vote in end["votes"]]


async def test_an_abstention_where_a_source_was_left_out_has_a_reason_of_its_own() -> None:
    with ScriptedLLM() as gone, ScriptedLLM() as there:
        gone.fault(*[ErrorReply(503, "down")] * 9)
        there.answer = Spoken(answers(None, None, None, None))
        models = {"gone": gone, "there": there}
        async with arbiter_at(there, agents_on(models), others=models, programs=False) as running:
            sources = [{"agent": "gone"}, {"agent": "there"}]
            end = await RpcApi(running.grpc, ARBITER).ask("Vote", question=QUESTION, sources=sources)

    assert end["outcome"] == "ABSTAINED"
    assert [reason.split(":")[0] for reason in end["degraded_reasons"]] == ["SOURCE_LEFT_OUT", "NO_VALID_ANSWER"]


async def test_the_error_of_the_only_source_is_the_error_of_the_vote(api: Api, scripted: ScriptedLLM) -> None:
    scripted.fault(*[ErrorReply(503, "down")] * 9)

    with pytest.raises(ApiError) as raised:
        await api.ask("Vote", question=QUESTION)

    assert raised.value.reason.startswith("BACKEND_")


async def test_the_envelope_ends_the_vote_with_what_there_is(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4", "5", "6"))

    end = await api.ask("Vote", question=QUESTION, envelope={"max_generations": 2})

    assert (end["stop_reason"], end["outcome"], end["winner"]) == ("BUDGET_EXHAUSTED", "UNDECIDED", "4")
    assert end["budget_exhausted"] is True
    assert end["degraded_reasons"] == ["BUDGET_EXHAUSTED: a limit ended the vote early"]


async def test_a_program_that_is_run_is_another_vote(rpc: RpcApi, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4"))

    end = await rpc.ask("Vote", question=QUESTION)

    assert [(vote["mode"], vote["answer"]) for vote in end["votes"]] == [("REASONED", "4"), ("PROGRAM", "4")]
    assert end["outcome"] == "DECIDED"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("I would rather not.", "the text holds no program"),
        ("```python\n1 / 0\n```", "the program failed: code: ZeroDivisionError: division by zero"),
        ("```python\nx = 4\n```", "the program printed nothing"),
        ("```python\nopen('/etc/passwd').read()\n```", "the program failed: code: PermissionError"),
    ],
)
async def test_a_program_without_an_answer_is_an_invalid_vote(
    rpc: RpcApi, scripted: ScriptedLLM, program: str, problem: str
) -> None:
    scripted.answer = Spoken(answers("4", "4"), program)

    end = await rpc.ask("Vote", question=QUESTION, answer_type="NUMBER")

    assert [vote["answer"] for vote in end["votes"]] == ["4", None, "4"]
    assert end["votes"][1]["invalid_reason"].startswith(problem)


async def test_without_the_sandbox_programs_are_left_out_and_named(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4", "4"))

    end = await api.ask("Vote", question=QUESTION, sources=[{"mode": "PROGRAM"}, {"mode": "REASONED"}])

    assert end["left_out"] == ["default program: programs are off; METACOG_ARBITER_PROGRAMS=true turns them on"]
    assert end["outcome"] == "DECIDED"


async def test_the_first_program_that_passes_its_tests_wins(rpc: RpcApi, scripted: ScriptedLLM) -> None:
    wrong, right = "```python\ndef double(x):\n    return x\n```", "```python\ndef double(x):\n    return 2 * x\n```"
    scripted.answer = Spoken([wrong, right])

    end = await rpc.ask("Vote", question="Write double.", answer_type="CODE", tests="assert double(3) == 6")

    assert (end["outcome"], end["stop_reason"], end["answer"]) == ("DECIDED", "PASSED_TESTS", right)
    assert end["votes"][0]["invalid_reason"].startswith("tests: double(3) does not give")


async def test_the_same_seed_asks_for_the_same_votes(api: Api, scripted: ScriptedLLM) -> None:
    scripted.answer = Spoken(answers("4", "5", "4") * 2)
    for _ in range(2):
        await api.ask("Vote", question=QUESTION, seed=11)

    seeds = [body["seed"] for body in scripted.bodies]
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds[:3])) == 3


async def test_every_vote_is_a_span(api: Api, scripted: ScriptedLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("metacog"))
    scripted.answer = Spoken(answers("4", None, "4"))

    await api.ask("Vote", question=QUESTION)

    spans = [dict(span.attributes or {}) for span in exporter.get_finished_spans() if span.name == "vote"]
    provider.shutdown()
    assert [(one["metacog.mode"], one["metacog.model"], one["metacog.valid"]) for one in spans] == [
        ("REASONED", scripted.model, True),
        ("REASONED", scripted.model, False),
        ("REASONED", scripted.model, True),
    ]


async def test_a_client_that_goes_away_stops_the_votes(scripted: ScriptedLLM) -> None:
    scripted.fault(Stall())
    async with arbiter_at(scripted, programs=False) as running, httpx.AsyncClient() as client:
        request = client.build_request("POST", f"{running.rest}/v1/votes", json={"question": QUESTION})
        request.headers["accept"] = "text/event-stream"
        reply = await client.send(request, stream=True)
        await scripted.until(lambda llm: llm.in_flight == 1)
        await reply.aclose()
        await scripted.until(lambda llm: llm.disconnects == 1)

    assert scripted.in_flight == 0


async def test_an_answer_is_returned_as_it_is_written_and_its_canonical_form_is_beside_it(
    api: Api, scripted: ScriptedLLM
) -> None:
    scripted.answer = Spoken(answers("The Old Tower!", "the old tower"))

    end = await api.ask("Vote", question="Which tower is it?", answer_type="TEXT")

    assert [vote["written"] for vote in end["votes"]] == ["The Old Tower!", "the old tower"]
    assert [vote["answer"] for vote in end["votes"]] == ["old tower", "old tower"]
    assert end["answer"] == sample_text("The Old Tower!")


@pytest.mark.parametrize(
    ("modes", "answer"), [(["PROGRAM", "PROGRAM"], "4"), (["PROGRAM", "REASONED"], sample_text("4.0"))]
)
async def test_a_text_answers_before_a_program_and_a_program_by_what_it_prints(
    rpc: RpcApi, scripted: ScriptedLLM, modes: list[str], answer: str
) -> None:
    scripted.answer = Spoken(answers("4.0"))
    sources = [{"agent": "", "mode": mode} for mode in dict.fromkeys(modes)]

    end = await rpc.ask("Vote", question=QUESTION, sources=sources, keep_order=True)

    assert [vote["mode"] for vote in end["votes"]] == modes
    assert (end["outcome"], end["winner"], end["answer"]) == ("DECIDED", "4", answer)
