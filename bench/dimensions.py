"""This benchmark counts how often classification by prototypes finds the dimension of a public question.

The right dimension is the label of the question's data set; chance is one in five.

    METACOG_DATA=FOLDER python -m bench dimensions     # a .jsonl file for each data set, as evals reads them
"""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

from configuration.dimensions import read_dimensions
from evals.items import Item, read_sets, sets_in
from inference import Embeddings, Prototypes
from services.delegation.service.dimensions import classified_by_embedding
from tests.support.models.encoder import encoder
from tests.support.stack import ROOT

EACH = int(os.environ.get("BENCH_EACH", "40"))
DIMENSIONS = read_dimensions(ROOT / "config" / "dimensions.yaml")
TIMEOUT_S = 120.0


async def measure(url: str, items: list[Item]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return counts by dimension of questions, of those with the right first dimension, and of those with any right."""
    embeddings = Embeddings(url)
    prototypes = Prototypes(embeddings)
    counts, first, among = Counter[str](), Counter[str](), Counter[str]()
    for item in items:
        named = await classified_by_embedding(item.question, DIMENSIONS, prototypes, timeout_s=TIMEOUT_S)
        counts[item.dimension] += 1
        first[item.dimension] += named[0].dimension == item.dimension
        among[item.dimension] += item.dimension in [each.dimension for each in named]
    await embeddings.close()
    return counts, first, among


def main() -> None:
    """Run the benchmark."""
    if "METACOG_DATA" not in os.environ:
        sys.stdout.write("left out: METACOG_DATA names no folder of data sets\n")
        return
    folder = Path(os.environ["METACOG_DATA"])
    items = [item for item in read_sets(folder, sets_in(folder), EACH, programs=True) if item.dimension]
    with encoder() as url:
        counts, first, among = asyncio.run(measure(url, items))
    sets = len({item.dataset for item in items})
    sys.stdout.write(
        f"{counts.total()} questions of {sets} data sets, at most {EACH} of each; first, or among those named\n"
    )
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{name:<24} {count:5d} {first[name] / count:6.2f} {among[name] / count:6.2f}\n")
    sys.stdout.write(f"{'all':<24} {counts.total():5d} {first.total() / counts.total():6.2f} ")
    sys.stdout.write(f"{among.total() / counts.total():6.2f}\n")


if __name__ == "__main__":
    main()
