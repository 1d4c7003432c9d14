"""Requests, votes and events of a vote; field names are the contract's."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from chassis.serving.wire import Count, Seed
from kernel.answers import AnswerType
from kernel.conversation import Turn
from kernel.envelope import Envelope, Usage
from kernel.values import value
from kernel.votes.agreement import AgreementLevel
from kernel.votes.probability import VoteEvidence
from kernel.votes.votes import MOST_VOTES, VoteMode, VoteOutcome, VoteStop

Share = Annotated[float, Field(ge=0, le=1)]
Votes = Annotated[int, Field(ge=1, le=MOST_VOTES)]
# Sources whose competence a request may state [count].
MOST_COMPETENCES = 256
Tokens = Annotated[int, Field(ge=0, le=2**31 - 1)]


@value
class VotingAgent:
    """A voting agent is a source of votes: an agent, or a model alone, in one mode; unnamed it is the default model."""

    agent: str = ""
    mode: VoteMode | None = None
    competence: Share | None = None
    model: Annotated[str, Field(max_length=200)] = ""


@value
class VoteDraft:
    """A draft is the System 1 answer, which the caller has already; it is the first vote."""

    text: str = ""
    model: str = ""
    completion_tokens: Tokens = 0
    competence: Share | None = None


@value
class VoteRequest:
    """This value asks for votes on `question`, or on the conversation in `messages`."""

    question: str = ""
    messages: Sequence[Turn] = ()
    answer_type: AnswerType | None = None
    draft: VoteDraft | None = None
    sources: Annotated[Sequence[VotingAgent], Field(max_length=MOST_VOTES)] = ()
    agree: Votes | None = None
    most: Votes | None = None
    ahead: Votes | None = None
    tests: str = ""
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    envelope: Envelope | None = None
    seed: Seed | None = None
    run_id: str = ""
    ask_draft: bool = False
    competences: Annotated[Sequence[VotingAgent], Field(max_length=MOST_COMPETENCES)] = ()
    keep_order: bool = False
    ask_all: bool = False
    enough: AgreementLevel | None = None


@value
class VoteStarted:
    """This event says that a vote begins."""

    run_id: str
    answer_type: AnswerType
    agree: int
    most: int
    ahead: int
    sources: Sequence[VotingAgent]
    left_out: Sequence[str]


@value
class VoteCast:
    """This event is one vote; without an answer it is invalid, and `invalid_reason` says why."""

    index: int
    agent: str
    mode: VoteMode
    model: str
    text: str
    answer: str | None
    invalid_reason: str
    completion_tokens: int | None
    truncated: bool
    changed_lead: bool
    duration_ms: float
    source_model: str = ""
    written: str | None = None


@value
class AnswerVotes:
    """This value holds the votes for one answer."""

    answer: str
    votes: Sequence[int]
    log_odds: float
    without_unit: Sequence[int] = ()


@value
class VoteFinished:
    """This event says that a vote has ended, with everything that explains its answer."""

    outcome: VoteOutcome
    answer: str
    winner: str | None
    groups: Sequence[AnswerVotes]
    votes: Sequence[VoteCast]
    stop_reason: VoteStop
    answer_type: AnswerType
    agree: int
    most: int
    asked: int
    invalid: int
    left_out: Sequence[str]
    usage: Usage
    budget_exhausted: bool
    degraded: bool
    degraded_reasons: Sequence[str]
    prompt_digests: Mapping[str, str]
    model: str
    run_id: str
    duration_ms: float
    evidence: VoteEvidence | None


VoteEvent = VoteStarted | VoteCast | VoteFinished


@value
class StoredVote:
    """A vote is stored with its question and its last event."""

    created_at: datetime
    question: str = ""
    finished: VoteFinished


@value
class GetVoteResponse:
    """This response holds one vote."""

    vote: StoredVote


@value
class ListVotesResponse:
    """This response is a page of votes."""

    votes: Sequence[StoredVote]
    next_page_token: str
    unreadable: int = 0
