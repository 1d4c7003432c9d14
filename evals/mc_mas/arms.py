"""The arms behind the tables of arbitration: everything sampled once, and replays of it that call no model. Pure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from evals import prompts
from evals.harness.arms import Arm, Call, Replies
from evals.items import Item
from evals.strategies import WIDE, limited, named
from kernel.arbitration.defaults import (
    ARBITRATION_SAMPLES,
    ARBITRATION_TEMPERATURE,
    CRITIQUE_TEMPERATURE,
    NOVEL_BELOW,
    SOLVER_SAMPLES,
    SOLVER_TEMPERATURE,
)
from kernel.seeds import derived_seed
from kernel.values import value

FULL, SAME_GENERATIONS = "mc-mas", "self-consistency"
REPLAYS: Mapping[str, Mapping[str, str]] = {
    "replay-majority": {"variant": "MAJORITY_VOTE", "mode": "PAPER"},
    "replay-reflections": {"variant": "REFLECTIONS", "mode": "PAPER"},
    "replay-single": {"variant": "SINGLE_ARBITER", "mode": "PAPER"},
    "replay-adaptive": {"variant": "FULL", "mode": "ADAPTIVE"},
}


@value
class Sampling:
    """The numbers of samples, and their settings.

    Attributes:
        solver_samples: Samples of each of the two solvers, K_s [count, >= 1].
        arbitration_samples: Samples of the arbiter, K_a [count, >= 1].
        embeddings: Whether novelty and its kin are measured, which needs the sentence encoder.
        max_tokens: Tokens of one sample [count]; 0: the service's default.
        critique_temperature: Sampling temperature of the critiques [0..2].
        arbitration_temperature: The same of the arbitration [0..2]; solvers have that of self-consistency.
        novelty_threshold: Similarity below which a claim is novel, tau [-1..1].
        solver_agents: Agent of each solver, which fixes its model: one, or one for each; empty: the service's.
        critic_agent: Agent that writes the critiques; empty: that of the solver.
        arbiter_agent: Agent that arbitrates; empty: the service's.
    """

    solver_samples: int = SOLVER_SAMPLES
    arbitration_samples: int = ARBITRATION_SAMPLES
    embeddings: bool = True
    max_tokens: int = 0
    critique_temperature: float = CRITIQUE_TEMPERATURE
    arbitration_temperature: float = ARBITRATION_TEMPERATURE
    novelty_threshold: float = NOVEL_BELOW
    solver_agents: tuple[str, ...] = ()
    critic_agent: str = ""
    arbiter_agent: str = ""

    @property
    def request_fields(self) -> Mapping[str, Any]:
        """The fields of a request that ask for it."""
        limits = ("solver_max_tokens", "critique_max_tokens", "arbitration_max_tokens")
        return {
            "solver_samples": self.solver_samples,
            "arbitration_samples": self.arbitration_samples,
            "embedding_measures": self.embeddings,
            "solver_temperature": SOLVER_TEMPERATURE,
            "critique_temperature": self.critique_temperature,
            "arbitration_temperature": self.arbitration_temperature,
            "novelty_threshold": self.novelty_threshold,
            **({name: self.max_tokens for name in limits} if self.max_tokens else {}),
            **({"solver_agents": list(self.solver_agents)} if self.solver_agents else {}),
            **({"critic_agent": self.critic_agent} if self.critic_agent else {}),
            **({"arbiter_agent": self.arbiter_agent} if self.arbiter_agent else {}),
        }


def arms(sampling: Sampling, *, equal_compute: bool = True) -> Sequence[Arm]:
    """The full procedure, its control with as many generations of the same length, and the replays.

    Args:
        sampling: How much is sampled.
        equal_compute: Whether self-consistency with as many generations is sampled beside it.
    """
    full = Arm(name=FULL, call=partial(_arbitration, sampling), settings=sampling.request_fields)
    control = [limited(arm, sampling.max_tokens) for arm in _same_generations(sampling)] if equal_compute else []
    replays = [
        Arm(name=name, call=partial(_replay, sampling, variant), settings=variant) for name, variant in REPLAYS.items()
    ]
    return [full, *control, *replays]


def _same_generations(sampling: Sampling) -> Sequence[Arm]:
    """Self-consistency with as many generations; of each solver's model where agents fix them."""
    agents = dict.fromkeys(sampling.solver_agents)
    each = [named(SAME_GENERATIONS, like=FULL, agents=[agent], also=agent) for agent in agents]
    return each or [named(SAME_GENERATIONS, like=FULL)]


def is_control(arm: str) -> bool:
    """Whether `arm` is self-consistency with as many generations.

    Example:
        >>> is_control("self-consistency"), is_control("self-consistency:llama"), is_control("mc-mas")
        (True, True, False)
    """
    return arm.partition(":")[0] == SAME_GENERATIONS


def _arbitration(sampling: Sampling, item: Item, seed: int, _: Replies) -> Call:
    body = {
        "question": prompts.task(item).text,
        "answer_type": item.answer_type.value,
        "mode": "PAPER",
        **sampling.request_fields,
        **_truth(item),
        "return_samples": True,
        "seed": derived_seed(seed, "eval", FULL, item.id),
        "envelope": dict(WIDE),
    }
    return Call(service="arbiter", path="/v1/arbitrations", body=body)


def _replay(sampling: Sampling, variant: Mapping[str, str], item: Item, seed: int, replies: Replies) -> Call | None:
    made = replies.get(FULL) or {}
    if not made.get("samples"):
        return None
    body = {
        "id": item.id,
        "question": prompts.task(item).text,
        "answer_type": made["answer_type"],
        **recording(made),
        **variant,
        "solver_samples": sampling.solver_samples,
        "arbitration_samples": sampling.arbitration_samples,
        "embedding_measures": sampling.embeddings,
        "novelty_threshold": sampling.novelty_threshold,
        **_truth(item),
    }
    return Call(service="arbiter", path="/v1/replays", body=body)


def recording(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """The samples of a finished arbitration, as a replay takes them."""
    return {
        "recorded_solver_samples": [sample for sample in made["samples"] if sample["solver"] is not None],
        "recorded_arbitration_samples": [sample for sample in made["samples"] if sample["solver"] is None],
        "recorded_critiques": made["critiques"],
    }


def _truth(item: Item) -> Mapping[str, Any]:
    """Return what the measures receive, and no model sees."""
    return {"truth": item.answer, "truth_aliases": list(item.aliases or ())}
