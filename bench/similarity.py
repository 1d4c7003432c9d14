"""Cosines of one encoder: of unrelated texts, of paraphrases, and of questions with their answers.

It prints the floor and the ceiling between which the router counts a text as more or less known. The router looks at
the nearest of many texts, so the floor is the cosine that three in four queries stay below when nothing that is stored
has to do with them; the ceiling is what half of the paraphrases reach. With another encoder than the packaged one, set
`METACOG_ROUTER_SIMILARITY_FLOOR`, `_CEILING` and `_ENCODER` to what it prints.

    python -m bench similarity                                  # the packaged encoder, started for it
    METACOG_ENCODER_URL=http://.../v1 python -m bench similarity
"""

import asyncio
import os
import sys
from contextlib import ExitStack

import numpy as np

from bench.sentences import ANSWERED, PARAPHRASES
from chassis.settings import read
from configuration.suite import SuiteSettings
from inference import Embeddings
from tests.support.models.encoder import encoder

TIMEOUT_S = 60.0


async def measure(url: str, model: str, key: str) -> tuple[str, dict[str, "np.ndarray"]]:
    """Name of the encoder, and the cosines of each kind of pair."""
    embeddings = Embeddings(url, model=model, key=key)
    pairs = (*PARAPHRASES, *ANSWERED)
    embedded = await embeddings.embed([text for pair in pairs for text in pair], timeout_s=TIMEOUT_S)
    await embeddings.close()
    vectors = embedded.vectors / np.linalg.norm(embedded.vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    paraphrases = len(PARAPHRASES)
    same = np.diag(cosines, 1)[0::2]
    others = np.arange(len(vectors)) // 2
    unrelated = np.where(others[:, None] == others[None, :], np.nan, cosines)
    return embedded.encoder.name, {
        "unrelated texts": unrelated[np.triu(~np.isnan(unrelated))],
        f"nearest of {len(vectors) - 2} unrelated texts": np.nanmax(unrelated, axis=1),
        "question and answering passage": same[paraphrases:],
        "paraphrases": same[:paraphrases],
    }


def report(name: str, kinds: dict[str, "np.ndarray"]) -> str:
    """The cosines as a table, and the two numbers that follow from them."""
    floor = float(np.quantile(next(kinds[kind] for kind in kinds if kind.startswith("nearest")), 0.75))
    ceiling = float(np.quantile(kinds["paraphrases"], 0.5))
    lines = [f"encoder {name}", "", "| pairs | n | p5 | p25 | median | p75 | p95 | similarity of the median |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for kind, cosines in kinds.items():
        quantiles = np.quantile(cosines, [0.05, 0.25, 0.5, 0.75, 0.95])
        share = min(1.0, max(0.0, (float(quantiles[2]) - floor) / (ceiling - floor)))
        lines.append(f"| {kind} | {len(cosines)} | " + " | ".join(f"{q:.2f}" for q in quantiles) + f" | {share:.2f} |")
    return "\n".join([*lines, "", f"floor {floor:.2f}, ceiling {ceiling:.2f}", ""])


def main() -> None:
    """Measure and print."""
    suite = read(SuiteSettings)
    with ExitStack() as stack:
        url = suite.encoder_url if os.environ.get("METACOG_ENCODER_URL") else stack.enter_context(encoder())
        found = asyncio.run(measure(url, suite.encoder_model, suite.encoder_api_key.get_secret_value()))
    sys.stdout.write(report(*found))


if __name__ == "__main__":
    main()
