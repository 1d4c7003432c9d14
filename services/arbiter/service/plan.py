"""What one arbitration is going to do: the request with every default filled in."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chassis.errors import RequestOverLimit
from kernel.answers import AnswerType, inferred_type, listed_options
from kernel.arbitration.modes import Mode, Variant
from kernel.arbitration.stopping import StopRule
from kernel.conversation import Turn
from kernel.envelope import LARGEST_LIMIT, Limits
from kernel.errors import MalformedRequest
from kernel.seeds import derived_seed
from services.arbiter.service.measure import thresholds_of
from services.arbiter.service.measures import Thresholds
from services.arbiter.service.samples import AnswerForm
from services.arbiter.service.values import AdaptiveOptions, ArbitrateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationDefaults:
    """What a request that leaves something out gets; the papers' numbers where they have one (SPEC 2.1).

    Attributes:
        limits: The envelope.
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
        stepwise_solving: Whether solver samples are drawn in steps.
        most_solvers: Solvers that a request may ask for [count].
        most_samples: Samples of one stage that a request may ask for [count].
    """

    limits: Limits
    solvers: int = 2
    solver_samples: int = 5
    arbitration_samples: int = 50
    solver_temperature: float = 0.6
    critique_temperature: float = 0.2
    arbitration_temperature: float = 0.4
    solver_max_tokens: int = 256
    critique_max_tokens: int = 192
    arbitration_max_tokens: int = 256
    input_max_tokens: int = 512
    stopping_probability: float = 0.95
    first_batch_samples: int = 6
    stepwise_solving: bool = False
    most_solvers: int = 16
    most_samples: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens that one text of each stage may have [count], and each earlier text in a prompt."""

    solve: int
    critique: int
    arbitrate: int
    input: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperatures:
    """Sampling temperatures."""

    solve: float
    critique: float
    arbitrate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One arbitration, with nothing left open.

    Attributes:
        question: What is asked, as one text.
        answer_type: Form of the answer; None: inferred.
        mode: How many samples are drawn.
        variant: Which stages run.
        solvers: Solvers [count].
        solver_samples: Samples per solver [count].
        rule: Arbitration samples, and when they may stop.
        agreement_entropy: Entropy up to which solvers agree [nats].
        stepwise: Whether solver samples are drawn in steps.
        tokens: Sizes of texts.
        truth: The right answer, for the measures only.
        aliases: Other spellings of it.
        thresholds: What counts as novel and as overconfident.
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
    stepwise: bool
    tokens: Tokens
    thresholds: Thresholds
    truth: str | None = None
    aliases: Sequence[str] = ()
    embedding_measures: bool = True
    return_samples: bool = False
    run_id: str = ""
    options: Sequence[str] = field(default=())
    is_recorded: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether sampling may stop early."""
        return self.mode is Mode.ADAPTIVE

    @property
    def critiques(self) -> int:
        """Critiques if all are written [count]."""
        return self.solvers if self.variant.criticises else 0

    @property
    def arbitration_samples(self) -> int:
        """Arbitration samples if all are drawn [count]."""
        return self.rule.samples if self.variant.arbitrates else 0

    @property
    def generations(self) -> int:
        """Generations if every sample is drawn [count]: solvers x K_s, a critique each, K_a."""
        return self.solvers * self.solver_samples + self.critiques + self.arbitration_samples

    def wide_enough(self, default: Limits) -> Limits:
        """The default envelope, never narrower than drawing every sample once."""
        solved, tokens = self.solvers * self.solver_samples * self.tokens.solve, self.tokens
        written = solved + self.critiques * tokens.critique + self.arbitration_samples * tokens.arbitrate
        return replace(
            default,
            max_generations=max(default.max_generations, self.generations),
            max_generated_tokens=max(default.max_generated_tokens, min(LARGEST_LIMIT, written)),
        )

    def form(self, samples: Sequence[str] = ()) -> AnswerForm:
        """Form of the answer, as given or as question and samples show it."""
        kind = self.answer_type or inferred_type(self.question, options=self.options, samples=samples).answer_type
        options = self.options if kind is AnswerType.CHOICE else ()
        return AnswerForm(answer_type=kind, options=options, is_canonical=self.is_recorded)

    @property
    def is_form_firm(self) -> bool:
        """Whether no sample can change the form: it is given, or options are listed."""
        return self.answer_type is not None or self.form().answer_type is AnswerType.CHOICE


def planned(ask: ArbitrateRequest, defaults: ArbitrationDefaults) -> Plan:
    """The request with every default filled in.

    Raises:
        MalformedRequest: Without a question, or with two.
        RequestOverLimit: For more solvers or samples than are allowed.
    """
    question = question_of(ask.question, ask.messages)
    solvers, samples = ask.solvers or defaults.solvers, ask.solver_samples or defaults.solver_samples
    arbitration = 1 if ask.variant is Variant.SINGLE_ARBITER else ask.arbitration_samples
    arbitration = arbitration or defaults.arbitration_samples
    if ask.variant is Variant.SELF_CONSISTENCY:
        samples = ask.self_consistency_samples or solvers * samples + solvers + arbitration
        solvers = 1
    _check("solvers", solvers, defaults.most_solvers)
    _check("solver_samples", samples, defaults.most_samples)
    _check("arbitration_samples", arbitration, defaults.most_samples)
    options = ask.adaptive or AdaptiveOptions()
    return Plan(
        question=question,
        answer_type=ask.answer_type,
        mode=ask.mode,
        variant=ask.variant,
        solvers=solvers,
        solver_samples=samples,
        rule=stop_rule(arbitration, options, defaults),
        agreement_entropy=options.agreement_entropy or 0.0,
        stepwise=stepwise(ask.mode, options, defaults),
        tokens=Tokens(
            solve=ask.solver_max_tokens or defaults.solver_max_tokens,
            critique=ask.critique_max_tokens or defaults.critique_max_tokens,
            arbitrate=ask.arbitration_max_tokens or defaults.arbitration_max_tokens,
            input=defaults.input_max_tokens,
        ),
        thresholds=thresholds_of(ask.novelty_threshold, ask.overconfidence_threshold),
        truth=ask.truth,
        aliases=ask.truth_aliases,
        embedding_measures=ask.embedding_measures is not False,
        return_samples=ask.return_samples,
        run_id=ask.run_id,
        options=listed_options(question),
    )


def temperatures(ask: ArbitrateRequest, defaults: ArbitrationDefaults) -> Temperatures:
    """Temperatures as asked for, or the defaults."""

    def either(asked: float | None, default: float) -> float:
        return default if asked is None else asked

    return Temperatures(
        solve=either(ask.solver_temperature, defaults.solver_temperature),
        critique=either(ask.critique_temperature, defaults.critique_temperature),
        arbitrate=either(ask.arbitration_temperature, defaults.arbitration_temperature),
    )


def base_seed(ask: ArbitrateRequest) -> int | None:
    """Seed of the run: the caller's, or one that its name makes; None leaves chance to the backends."""
    if ask.seed is not None:
        return ask.seed
    return derived_seed(0, "run", ask.run_id) if ask.run_id else None


def stop_rule(samples: int, options: AdaptiveOptions, defaults: ArbitrationDefaults) -> StopRule:
    """When adaptive arbitration of `samples` stops."""
    return StopRule(
        samples=samples,
        first_batch=options.first_batch_samples or defaults.first_batch_samples,
        probability=options.stopping_probability or defaults.stopping_probability,
    )


def default_rule(defaults: ArbitrationDefaults) -> StopRule:
    """When an arbitration stops whose request says nothing of it."""
    return stop_rule(defaults.arbitration_samples, AdaptiveOptions(), defaults)


def stepwise(mode: Mode, options: AdaptiveOptions, defaults: ArbitrationDefaults) -> bool:
    """Whether solver samples are drawn in steps."""
    asked = defaults.stepwise_solving if options.stepwise_solving is None else options.stepwise_solving
    return mode is Mode.ADAPTIVE and asked


def question_of(question: str, messages: Sequence[Turn]) -> str:
    """The question as one text: a conversation of several turns as its transcript.

    Raises:
        MalformedRequest: Without a question, or with two.
    """
    if question.strip() and messages:
        raise MalformedRequest("give either question or messages", field="question")
    turns = [turn for turn in messages if turn.content.strip()]
    if len(turns) == 1:
        return turns[0].content
    text = "\n\n".join(f"{turn.role}: {turn.content}" for turn in turns) if turns else question
    if not text.strip():
        raise MalformedRequest("give a question, or messages with some text", field="question")
    return text


def _check(name: str, asked: int, most: int) -> None:
    if asked > most:
        raise RequestOverLimit(f"{name}: at most {most}, not {asked}", field=name, limit=str(most))
