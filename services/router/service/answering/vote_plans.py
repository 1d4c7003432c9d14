"""Vote plans say who votes on a request, and which stronger model answers where the votes decide nothing.

What a request leaves out comes from the row of the policy table that chose the strategy; of a cascade, then from the
settings, then from the prices in the catalogue of models.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from chassis.errors import ConfigurationInvalid
from chassis.json_text import dumps
from inference import BackendModelClients, ModelNotFound
from kernel.answers import inferred_type, listed_options, rules_of
from kernel.errors import MalformedRequest
from kernel.policy import Policy, Strategy
from kernel.values import value
from kernel.votes.drafts import can_vote
from kernel.votes.plans import PlannedSource, PricedModel, VotePlan, cascade_plan
from kernel.votes.votes import VoteMode
from services.router.service.answering.values import AnswerRequest, VoteOptions, VoteOptionsSource

NO_OPTIONS = VoteOptions()
NO_PLAN = VotePlan()
VERSION_LENGTH = 12


@value
class PlannedVote:
    """A planned vote is a vote with everything decided that the arbiter does not decide itself.

    Attributes:
        options: How votes are asked for; its sources are all but the draft.
        has_draft: Whether the direct answer of the default model is asked for, and votes first; one that exists already
            votes in any case.
        keep_order: Whether the sources are asked in their order, whatever competences are recorded.
        beside_draft: The sources where a draft exists already; None: the same.
        version: Version of the configuration of these votes, within which labels of their agreement are compared.
    """

    options: VoteOptions = NO_OPTIONS
    has_draft: bool = True
    keep_order: bool = False
    beside_draft: Sequence[VoteOptionsSource] | None = None
    version: str = ""

    def sources(self, *, has_draft: bool) -> Sequence[VoteOptionsSource]:
        """Return who votes beside the draft, or without one."""
        return self.beside_draft if has_draft and self.beside_draft is not None else self.options.sources

    @property
    def asks_ahead(self) -> bool:
        """Return whether votes are asked for at once, so that the arbiter asks for the draft too (papers.md 5.1)."""
        return (self.options.ahead or 1) > 1


class VotePlans:
    """These plans hold for one process.

    Args:
        models: The models.
        policy: The policy table; None where it is off.
        cascade: What the settings state of a cascade.
    """

    def __init__(self, models: BackendModelClients, policy: Policy | None = None, cascade: VotePlan = NO_PLAN) -> None:
        self._models = models
        self._rows = {row.name: row for row in policy.rows} if policy else {}
        self._cascade = cascade

    def planned(
        self, strategy: Strategy, request: AnswerRequest, policy_row: str = "", *, promised: bool = False
    ) -> PlannedVote:
        """Return the vote that `strategy` is for a request.

        Args:
            strategy: `vote` or `cascade`.
            request: The request.
            policy_row: Name of the row that chose the strategy; empty: none did.
            promised: Whether the error of the answers that are given is promised: what the votes do not prove may then
                be answered by the stronger model of the settings.

        Raises:
            NoCascade: When the models leave open what a cascade would be.
            MalformedRequest: For a model of the request that is not in the catalogue.
            ModelNotFound: For another one that is not.
        """
        options = request.vote or NO_OPTIONS
        self._check(options)
        row = self._rows.get(policy_row)
        plan = _plan_of(options).completed(row.plan if row is not None and row.plan is not None else NO_PLAN)
        if promised and not plan.escalate:
            plan = replace(plan, escalate=self._cascade.escalate)
        if strategy is not Strategy.CASCADE:
            return PlannedVote(options=self._filled(options, self._without_aliases(plan)))
        models = self._models.current().catalogue.models
        plan = cascade_plan(
            [PricedModel(name=model.name, price=model.tariff) for model in models],
            self._without_aliases(plan.completed(self._cascade)),
        )
        filled = self._filled(options, plan)
        asked = [source for source in filled.sources if source.mode is not VoteMode.DRAFT]
        return PlannedVote(
            options=replace(filled, sources=asked),
            has_draft=len(asked) < len(filled.sources),
            keep_order=True,
            beside_draft=[source for source in asked if not self._is_default(source)],
        )

    def agreed(self, vote: PlannedVote, agree: int) -> PlannedVote:
        """Return the vote with what must agree where it states nothing else, and with its version.

        Args:
            vote: The vote.
            agree: Votes for one answer that decide, unless the vote states it [count].
        """
        options = replace(vote.options, agree=vote.options.agree or agree)
        snapshot, stronger = self._models.current(), options.escalate or self._cascade.escalate
        configuration = [
            [options.agree, options.most, options.ahead, vote.has_draft, vote.keep_order],
            snapshot.default.config.model,
            stronger and snapshot.named(stronger).config.model,
            *([one.agent, one.model and snapshot.named(one.model).config.model, one.mode] for one in options.sources),
        ]
        version = sha256(dumps(configuration)).hexdigest()[:VERSION_LENGTH]
        return replace(vote, options=options, version=version)

    def models_of(self, named: Strategy | None, request: AnswerRequest, *, promised: bool = False) -> Sequence[str]:
        """Return the models that a run may call beside its System 1, whichever strategy is chosen.

        Args:
            named: The strategy that the request names; None: the router chooses.
            request: The request.
            promised: As `planned` has it.

        Raises:
            NoCascade, MalformedRequest, ModelNotFound: As `planned`.
        """
        if named in (Strategy.VOTE, Strategy.CASCADE):
            return _names(self.planned(named, request, promised=promised).options)
        if named is not None:
            return ()
        voting = [row for row in self._rows.values() if row.strategy in (Strategy.VOTE, Strategy.CASCADE)]
        plans = [self.planned(Strategy(row.strategy), request, row.name) for row in voting]
        single = [row.model for row in self._rows.values() if row.model]
        return [*single, *(name for plan in plans for name in _names(plan.options))]

    def model_of(self, policy_row: str) -> str:
        """Return the model that answers as System 1 where this row of the policy table chose it; empty: the usual."""
        row = self._rows.get(policy_row)
        return row.model if row is not None else ""

    async def check(self) -> None:
        """Return if every model of the policy table and of the settings is in the catalogue as it is now.

        Raises:
            ConfigurationInvalid: While one is not.
        """
        self.check_now()

    def check_now(self) -> None:
        """Return if `check` would.

        Raises:
            ConfigurationInvalid: While a model is not in the catalogue.
        """
        places = [(f"row {name!r} of the policy table", row.models) for name, row in self._rows.items()]
        snapshot = self._models.latest()
        for place, names in [*places, ("METACOG_ROUTER_CASCADE_...", self._cascade.models)]:
            for name in names:
                try:
                    snapshot.named(name)
                except ModelNotFound as error:
                    raise ConfigurationInvalid(f"{place}: {error.message}", problem=error.message) from error

    def _is_default(self, source: VoteOptionsSource) -> bool:
        """Return whether a draft that exists is the vote of this source: the default model's, in no stated mode."""
        if source.agent or source.mode is not None:
            return False
        catalogue = self._models.current().catalogue
        return not source.model or catalogue.named(source.model) is catalogue.default

    def _check(self, options: VoteOptions) -> None:
        for field, name in (
            *(("vote.sources", source.model) for source in options.sources),
            ("vote.escalate", options.escalate),
        ):
            try:
                if name:
                    self._models.named(name)
            except ModelNotFound as error:
                raise MalformedRequest(f"{field}: {error.message}", field=field) from error

    def catalogue_name(self, name: str) -> str:
        """Return the name in the catalogue of the model `name`; empty where no catalogue lists it."""
        return self._models.current().catalogue_name(name)

    def _without_aliases(self, plan: VotePlan) -> VotePlan:
        """Return the plan with each model under its own name: one model under two names would be two to a cascade."""
        return replace(
            plan,
            sources=[
                replace(one, model=self.catalogue_name(one.model) or one.model) if one.model else one
                for one in plan.sources
            ],
            escalate=self.catalogue_name(plan.escalate) or plan.escalate if plan.escalate else "",
        )

    def _filled(self, options: VoteOptions, plan: VotePlan) -> VoteOptions:
        """Return the options with what the plan states beside them.

        Raises:
            ModelNotFound: For a model that is not in the catalogue.
        """
        for name in plan.models:
            self._models.named(name)
        competences = [one.competence for one in options.sources] or [None] * len(plan.sources)
        sources = [
            VoteOptionsSource(agent=one.agent, model=one.model, mode=one.mode, competence=competence)
            for one, competence in zip(plan.sources, competences, strict=True)
        ]
        return replace(options, sources=sources, agree=plan.agree, most=plan.most, escalate=plan.escalate)


def is_comparable_request(request: AnswerRequest, question: str, draft: str | None, *, has_tests: bool) -> bool:
    """Return whether votes on a question may agree: without a draft, only programs without tests surely cannot.

    Args:
        request: The request, which may state the form of the answer.
        question: The question.
        draft: A System 1 answer; None where there is none.
        has_tests: Whether there are tests of the answer.
    """
    if draft is not None:
        return can_vote(question, draft, answer_type=request.answer_type, has_tests=has_tests)
    answer_type = request.answer_type or inferred_type(question, options=listed_options(question)).answer_type
    return has_tests or not rules_of(answer_type).is_program


def _plan_of(options: VoteOptions) -> VotePlan:
    return VotePlan(
        sources=[PlannedSource(agent=one.agent, model=one.model, mode=one.mode) for one in options.sources],
        agree=options.agree,
        most=options.most,
        escalate=options.escalate,
    )


def _names(options: VoteOptions) -> Sequence[str]:
    return [name for name in (*(one.model for one in options.sources), options.escalate) if name]
