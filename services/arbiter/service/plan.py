"""A plan is the request for one arbitration with every default filled in."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chassis.errors import RequestOverLimit
from kernel.answers import AnswerType, inferred_type, listed_options
from kernel.arbitration.consensus import first_step_samples, vote_looks
from kernel.arbitration.defaults import (
    AGREE,
    ARBITRATION_SAMPLES,
    ARBITRATION_TEMPERATURE,
    CRITIQUE_TEMPERATURE,
    FIRST_BATCH_SAMPLES,
    SOLVER_SAMPLES,
    SOLVER_TEMPERATURE,
    SOLVERS,
    STOPPING_PROBABILITY,
)
from kernel.arbitration.modes import Mode, SolvingStop, Variant
from kernel.arbitration.stopping import StopRule
from kernel.conversation import question_text
from kernel.envelope import DEFAULT_CEILINGS, LARGEST_LIMIT, Ceilings, Limits
from kernel.seeds import derived_seed
from services.arbiter.service.measurement import thresholds_of
from services.arbiter.service.measures import Thresholds
from services.arbiter.service.samples import AnswerForm
from services.arbiter.service.values import AdaptiveOptions, ArbitrateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationDefaults:
    """A request gets these values for what it leaves out; the papers' numbers where they have one (papers.md 2.1).

    Attributes:
        limits: The envelope.
        ceilings: The most that the envelope of a request may have.
        solvers: Independent solvers [count].
        solver_samples: Samples per solver, K_s [count].
        arbitration_samples: Arbitration samples, K_a [count].
        solver_temperature: Sampling temperature of the solvers.
        critique_temperature: The same of the critiques.
        arbitration_temperature: The same of the arbiter.
        solver_max_tokens: Tokens of a solver sample [count].
        critique_max_tokens: Tokens of a critique [count].
        arbitration_max_tokens: Tokens of an arbitration sample [count].
        input_max_tokens: Tokens of each trace and critique in a prompt; longer ones are shortened [count].
        stopping_probability: Probability from which adaptive sampling stops [0.5..1].
        first_batch_samples: Samples of its first batch [count].
        stop: When the solving ends.
        most_solvers: Solvers that a request may ask for [count].
        most_samples: Samples of one stage that a request may ask for [count].
    """

    limits: Limits
    ceilings: Ceilings = DEFAULT_CEILINGS
    solvers: int = SOLVERS
    solver_samples: int = SOLVER_SAMPLES
    arbitration_samples: int = ARBITRATION_SAMPLES
    solver_temperature: float = SOLVER_TEMPERATURE
    critique_temperature: float = CRITIQUE_TEMPERATURE
    arbitration_temperature: float = ARBITRATION_TEMPERATURE
    solver_max_tokens: int = 256
    critique_max_tokens: int = 192
    arbitration_max_tokens: int = 256
    input_max_tokens: int = 512
    stopping_probability: float = STOPPING_PROBABILITY
    first_batch_samples: int = FIRST_BATCH_SAMPLES
    stop: SolvingStop = SolvingStop.AGREE
    most_solvers: int = 16
    most_samples: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """One text of each stage, and each earlier text in a prompt, may have so many tokens [count]."""

    solve: int
    critique: int
    arbitrate: int
    input: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperatures:
    """The stages sample at these temperatures."""

    solve: float
    critique: float
    arbitrate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan is one arbitration with all its sizes.

    Attributes:
        question: The question as one text.
        answer_type: Form of the answer; None: inferred.
        mode: Whether sampling may stop early.
        variant: The stages that run.
        solvers: Solvers [count].
        solver_samples: Samples per solver [count].
        rule: Arbitration samples, and when they may stop.
        agreement_entropy: Entropy up to which solvers agree [nats].
        stop: When the solving ends.
        agree: Equal answers that end it where the solvers' vote is the answer [count].
        tokens: Sizes of texts.
        truth: The right answer, for the measures only.
        aliases: Other spellings of it.
        thresholds: Bounds of novelty and overconfidence.
        embedding_measures: Whether claims are traced.
        return_samples: Whether samples are returned.
        run_id: Name of the run.
        options: Texts of the options that the question lists.
        is_recorded: Whether answers are not read from texts, but recorded in canonical form.
    """

    question: str
    answer_type: AnswerType | None
    mode: Mode
    variant: Variant
    solvers: int
    solver_samples: int
    rule: StopRule
    agreement_entropy: float
    stop: SolvingStop
    tokens: Tokens
    thresholds: Thresholds
    agree: int = AGREE
    truth: str | None = None
    aliases: Sequence[str] = ()
    embedding_measures: bool = True
    return_samples: bool = False
    run_id: str = ""
    options: Sequence[str] = field(default=())
    is_recorded: bool = False

    @property
    def adaptive(self) -> bool:
        """Return whether sampling may stop early."""
        return self.mode is Mode.ADAPTIVE

    @property
    def is_vote(self) -> bool:
        """Return whether nothing follows the solving: the solvers' vote is the answer."""
        return not (self.variant.has_critiques or self.variant.has_arbiter)

    @property
    def solver_looks(self) -> Sequence[int]:
        """Return the samples of each solver after which the solving may end [count]; the last are all."""
        if self.stop is SolvingStop.NONE:
            return (self.solver_samples,)
        if self.is_vote:
            return vote_looks(self.solver_samples)
        return tuple(sorted({first_step_samples(self.solver_samples), self.solver_samples}))

    @property
    def critiques(self) -> int:
        """Return the number of critiques if all are written [count]."""
        return self.solvers if self.variant.has_critiques else 0

    @property
    def arbitration_samples(self) -> int:
        """Return the number of arbitration samples if all are drawn [count]."""
        return self.rule.samples if self.variant.has_arbiter else 0

    @property
    def generations(self) -> int:
        """Return the generations if every sample is drawn [count]: solvers x K_s, a critique each, K_a."""
        return self.solvers * self.solver_samples + self.critiques + self.arbitration_samples

    def sufficient_limits(self, default: Limits) -> Limits:
        """Return the default envelope, widened so that every sample can be drawn once."""
        solved, tokens = self.solvers * self.solver_samples * self.tokens.solve, self.tokens
        written = solved + self.critiques * tokens.critique + self.arbitration_samples * tokens.arbitrate
        return replace(
            default,
            max_generations=max(default.max_generations, self.generations),
            max_generated_tokens=max(default.max_generated_tokens, min(LARGEST_LIMIT, written)),
        )

    def form(self, samples: Sequence[str] = ()) -> AnswerForm:
        """Return the form of the answer, as given or as question and samples show it."""
        kind = self.answer_type or inferred_type(self.question, options=self.options, samples=samples).answer_type
        form = AnswerForm(answer_type=kind, is_canonical=self.is_recorded)
        return replace(form, options=self.options) if form.has_options else form

    @property
    def is_form_firm(self) -> bool:
        """Return whether no sample can change the form: it is given, or options are listed."""
        return self.answer_type is not None or self.form().has_options


def build_plan(request: ArbitrateRequest, defaults: ArbitrationDefaults) -> Plan:
    """Fill every default into the request.

    Raises:
        MalformedRequest: Without a question, or with two.
        RequestOverLimit: For more solvers or samples than are allowed.
    """
    question = question_text(request.question, request.messages)
    solvers, samples = request.solvers or defaults.solvers, request.solver_samples or defaults.solver_samples
    arbitration = 1 if request.variant is Variant.SINGLE_ARBITER else request.arbitration_samples
    arbitration = arbitration or defaults.arbitration_samples
    if request.variant is Variant.SELF_CONSISTENCY:
        samples = request.self_consistency_samples or solvers * samples + solvers + arbitration
        solvers = 1
    _check("solvers", solvers, defaults.most_solvers)
    _check("solver_samples", samples, defaults.most_samples)
    _check("arbitration_samples", arbitration, defaults.most_samples)
    options = request.adaptive or AdaptiveOptions()
    return Plan(
        question=question,
        answer_type=request.answer_type,
        mode=request.mode,
        variant=request.variant,
        solvers=solvers,
        solver_samples=samples,
        rule=stop_rule(arbitration, options, defaults),
        agreement_entropy=options.agreement_entropy or 0.0,
        stop=solving_stop(request.mode, options, defaults),
        agree=options.agree or AGREE,
        tokens=Tokens(
            solve=request.solver_max_tokens or defaults.solver_max_tokens,
            critique=request.critique_max_tokens or defaults.critique_max_tokens,
            arbitrate=request.arbitration_max_tokens or defaults.arbitration_max_tokens,
            input=defaults.input_max_tokens,
        ),
        thresholds=thresholds_of(request.novelty_threshold, request.overconfidence_threshold),
        truth=request.truth,
        aliases=request.truth_aliases,
        embedding_measures=request.embedding_measures is not False,
        return_samples=request.return_samples,
        run_id=request.run_id,
        options=listed_options(question),
    )


def temperatures(request: ArbitrateRequest, defaults: ArbitrationDefaults) -> Temperatures:
    """Return the temperatures of the request, or the defaults."""

    def either(requested: float | None, default: float) -> float:
        return default if requested is None else requested

    return Temperatures(
        solve=either(request.solver_temperature, defaults.solver_temperature),
        critique=either(request.critique_temperature, defaults.critique_temperature),
        arbitrate=either(request.arbitration_temperature, defaults.arbitration_temperature),
    )


def base_seed(request: ArbitrateRequest) -> int | None:
    """Return the seed of the run: the caller's, or one derived from its name; None leaves chance to the backends."""
    if request.seed is not None:
        return request.seed
    return derived_seed(0, "run", request.run_id) if request.run_id else None


def stop_rule(samples: int, options: AdaptiveOptions, defaults: ArbitrationDefaults) -> StopRule:
    """Return the rule by which adaptive arbitration of `samples` stops."""
    return StopRule(
        samples=samples,
        first_batch=options.first_batch_samples or defaults.first_batch_samples,
        probability=options.stopping_probability or defaults.stopping_probability,
    )


def default_rule(defaults: ArbitrationDefaults) -> StopRule:
    """Return the rule for a request without options."""
    return stop_rule(defaults.arbitration_samples, AdaptiveOptions(), defaults)


def solving_stop(mode: Mode, options: AdaptiveOptions, defaults: ArbitrationDefaults) -> SolvingStop:
    """Return when the solving ends; the papers' mode always draws every sample."""
    return (options.stop or defaults.stop) if mode is Mode.ADAPTIVE else SolvingStop.NONE


def _check(name: str, requested: int, most: int) -> None:
    if requested > most:
        raise RequestOverLimit(f"{name}: at most {most}, not {requested}", field=name, limit=str(most))
