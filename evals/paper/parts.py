"""The evaluations that make the tables of each paper, as commands of `metacog eval`. Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from re import sub

from evals.paper import loads
from evals.paper.loads import Load
from kernel.arbitration.defaults import ARBITRATION_SAMPLES, SOLVER_SAMPLES
from kernel.values import value


class Paper(StrEnum):
    """The papers whose tables can be made."""

    MSV = "msv"
    MC_MAS = "mc-mas"
    DELEGATION = "delegation"


@value
class Usual:
    """The default options of a paper.

    Attributes:
        title: What the paper is called here.
        sets: Its public data sets.
        items: Items of each; of delegation tasks of each dimension and difficulty [count].
        seeds: Its seeds.
        models: The models that it names, for whoever serves them.
    """

    title: str
    sets: str
    items: int
    seeds: str
    models: str


USUAL: Mapping[Paper, Usual] = {
    Paper.MSV: Usual(title="MSV", sets="truthfulqa,mmlu", items=250, seeds="7", models="Llama-3.2, Qwen3"),
    Paper.MC_MAS: Usual(
        title="MC-MAS",
        sets="boolq,arc_easy,strategyqa,gsm8k",
        items=200,
        seeds="1,2,3",
        models="Mistral-7B-Instruct and Llama-3.1-8B-Instruct, in 4 bits and full",
    ),
    Paper.DELEGATION: Usual(
        title="MetaCogAgent",
        sets=(
            "folio,bbh_logical_deduction,bbh_web_of_lies,triviaqa,nq_open,truthfulqa,mmlu,humaneval,mbpp,gsm8k,svamp,"
            "aqua_rat,math500,strategyqa,commonsenseqa,hellaswag,piqa,winogrande"
        ),
        items=40,
        seeds="7",
        models="one model for all agents",
    ),
}
# Cells of the delegation benchmark, and its kinds of made tasks [count].
CELLS, MAKERS = 15, 5


@value
class Asked:
    """The options that the user asks for.

    Attributes:
        paper: The paper.
        source: Options that select the data, by name.
        items: Items of each set, or tasks of each cell [count].
        seeds: Seeds, separated by commas.
        max_tokens: Tokens of a text at most [count].
        solver_samples: K_s of arbitration [count].
        arbitration_samples: K_a of arbitration [count].
        precision: Precision of the model's weights; empty: not stated.
        limits: Concurrency and timeout, by name.
    """

    paper: Paper
    source: Mapping[str, str]
    items: int
    seeds: str
    max_tokens: int
    solver_samples: int = SOLVER_SAMPLES
    arbitration_samples: int = ARBITRATION_SAMPLES
    precision: str = ""
    limits: Mapping[str, str]


@value
class Part:
    """One evaluation of a paper.

    Attributes:
        name: Its name, and that of its folder.
        command: The command of `metacog eval`.
        options: Its options by name, without folder and addresses.
        services: The services whose addresses it takes.
        load: What an item takes.
        in_order: Whether items are asked one at a time, since the service learns from each.
        text_tokens: Tokens of a text at most where the service sets them [count]; None: as asked for.
    """

    name: str
    command: str
    options: Mapping[str, str]
    services: Sequence[str]
    load: Load
    in_order: bool = False
    text_tokens: int | None = None


ALL_SERVICES = ("router", "assigner", "arbiter", "delegation")


def parts(asked: Asked, tasks: Path) -> Sequence[Part]:
    """Return the evaluations of a paper, in order.

    Args:
        asked: What is asked for.
        tasks: File of the benchmark's tasks, which delegation is measured on.
    """
    common = {"max-tokens": str(asked.max_tokens), **asked.limits}
    several = {**asked.source, "items": str(asked.items), "seeds": asked.seeds, **common}
    stated = {"precision": asked.precision} if asked.precision else {}
    match asked.paper:
        case Paper.MSV:
            alone = {name: text for name, text in several.items() if name not in ("max-tokens", "seeds")}
            once = {**alone, "seed": asked.seeds.partition(",")[0], **stated}
            return [
                Part(
                    name="routing",
                    command="routing",
                    options=once,
                    services=("router",),
                    load=loads.routing(),
                    text_tokens=loads.ANSWER_TOKENS,
                ),
                Part(
                    name="dialectic",
                    command="dialectic",
                    options={**several, **stated},
                    services=ALL_SERVICES,
                    load=loads.dialectic(),
                ),
                Part(
                    name="default-routing",
                    command="compare",
                    options={**several, "strategy": "auto", **stated},
                    services=ALL_SERVICES,
                    load=loads.usual_routing(),
                ),
            ]
        case Paper.MC_MAS:
            sampling = {
                "solver-samples": str(asked.solver_samples),
                "arbitration-samples": str(asked.arbitration_samples),
            }
            load = loads.arbitration(asked.solver_samples, asked.arbitration_samples)
            options = {**several, **sampling, **stated}
            return [Part(name="mc-mas", command="mc-mas", options=options, services=("arbiter",), load=load)]
        case Paper.DELEGATION:
            shared = {"tasks": str(tasks), "seeds": asked.seeds, **common, **stated}
            return [
                Part(
                    name="delegation",
                    command="delegation",
                    options={**shared, "product": "", "concurrency": "1"},
                    services=("delegation", "arbiter"),
                    load=loads.delegation(),
                    in_order=True,
                )
            ]


def benchmark_tasks(items: int) -> int:
    """Return the tasks of the delegation benchmark [count].

    Args:
        items: Tasks of each dimension and difficulty [count].

    Example:
        >>> benchmark_tasks(40), benchmark_tasks(1)
        (700, 20)
    """
    return CELLS * items + MAKERS * per_maker(items)


def per_maker(items: int) -> int:
    """Return the made tasks of each kind beside so many of a cell, as the paper has them: half as many [count]."""
    return max(1, items // 2)


def words(part: Part) -> Sequence[str]:
    """Return the words of a part's command, as they are typed after `metacog eval`.

    Example:
        >>> load = Load(requests=1, texts=1, ratings=0, prompts=1)
        >>> words(Part(name="a", command="mc-mas", options={"items": "3", "live": ""}, services=(), load=load))
        ['mc-mas', '--items', '3', '--live']
    """
    typed = [[f"--{name}", *([text] if text else [])] for name, text in part.options.items()]
    return [part.command, *(word for each in typed for word in each)]


def folder_of(model: str, precision: str) -> str:
    """Return the name of the folder of one model in one precision.

    Example:
        >>> folder_of("mistralai/Mistral-7B-Instruct-v0.3", "4-bit"), folder_of("scripted", "")
        ('mistralai-Mistral-7B-Instruct-v0.3_4-bit', 'scripted')
    """
    return "_".join(sub(r"[^A-Za-z0-9.-]+", "-", each) for each in (model, precision) if each)
