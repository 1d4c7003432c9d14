"""Time and recall of looking up what is known, at 1,000, 10,000 and 100,000 chunks.

Vectors of 384 dimensions: random directions, which is the worst there is for an index, and clustered ones, which texts
are more like. Queries are held out. Every time is of the router's own store in this process, over a Unix socket: one
transaction, as in a request, without embedding.

    python -m bench retrieval                            # BENCH_MOST_CHUNKS=10000 leaves out larger sizes
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from chassis import database as db
from chassis.schema import migrations
from chassis.schema.vectors import vector_text
from inference import Embedded, Encoder, Vectors
from services.router.service.knowledge.values import SearchKnowledgeRequest
from services.router.store.knowledge import PostgresKnowledge
from services.router.store.nearest_vectors import VectorSpace, indexes
from tests.support.stack import Database

SIZES = (1_000, 10_000, 100_000)
DIMENSION = 384
CLUSTERS = 200
SPREAD = 0.7  # length of the noise around a cluster's centre, which has length 1
QUERIES = 200
HITS = 10
COPIED_AT_ONCE = 2_000
BUILD_MEMORY = "512MB"  # an index that does not fit into it is built many times slower

Make = Callable[[np.random.Generator, int], Vectors]


def random_directions(rng: np.random.Generator, count: int) -> Vectors:
    """Unit vectors in every direction."""
    return _unit(rng.standard_normal((count, DIMENSION)))


def clustered(rng: np.random.Generator, count: int) -> Vectors:
    """Unit vectors around common centres."""
    centres = _unit(np.random.default_rng(1).standard_normal((CLUSTERS, DIMENSION)))
    noise = rng.standard_normal((count, DIMENSION)) * (SPREAD / np.sqrt(DIMENSION))
    return _unit(centres[rng.integers(CLUSTERS, size=count)] + noise)


def _unit(rows: "np.ndarray") -> Vectors:
    vectors: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return vectors


@dataclass
class Measured:
    """This value is the time that one size took."""

    kind: str
    chunks: int
    build_s: float
    index_mb: float
    search_ms: tuple[float, float]
    nearest_ms: tuple[float, float]
    recall: float
    top_recall: float

    def row(self) -> str:
        """A row of the table."""
        both = [f"{p50:.2f} / {p95:.2f}" for p50, p95 in (self.search_ms, self.nearest_ms)]
        cells = [self.kind, f"{self.chunks:,}", f"{self.build_s:.1f}", f"{self.index_mb:.0f}", *both]
        return "| " + " | ".join([*cells, f"{self.recall:.3f}", f"{self.top_recall:.3f}"]) + " |"


COLUMNS = (
    "vectors",
    "chunks",
    "index built [s]",
    "index [MB]",
    "search, 10 hits: p50 / p95 [ms]",
    "EM: p50 / p95 [ms]",
    "recall@10 of search",
    "recall@1 of EM",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


async def measure(url: str, kind: str, make: Make, chunks: int) -> Measured:
    """Fill an empty database, index it and ask it."""
    engine = db.build_engine(url)
    library = PostgresKnowledge(db.build_sessions(engine))
    rng = np.random.default_rng(chunks)
    stored, queries = make(rng, chunks), make(rng, QUERIES)
    build_s = await _fill(engine, stored)
    embedded = [Embedded(encoder=Encoder(name="bench", dimension=DIMENSION), vectors=query[None]) for query in queries]
    found: list[list[int]] = []
    tops: list[float] = []

    async def search(query: Embedded) -> None:
        page = await library.search(SearchKnowledgeRequest(query="x"), query, rank=0, key_name="")
        found.append([int(hit.text) for hit in page.hits])

    async def nearest(query: Embedded) -> None:
        tops.append((await library.nearest(query, key_name=""))["knowledge"] or 0.0)

    search_ms, nearest_ms = await _timed(search, embedded), await _timed(nearest, embedded)
    cosines = queries @ stored.T
    exact = np.argpartition(-cosines, HITS, axis=1)[:, :HITS]
    async with engine.connect() as connection:
        size = await connection.scalar(text("SELECT pg_relation_size('router.ix_chunks_embedding_1')"))
    await engine.dispose()
    return Measured(
        kind=kind,
        chunks=chunks,
        build_s=build_s,
        index_mb=int(size or 0) / 1e6,
        search_ms=search_ms,
        nearest_ms=nearest_ms,
        recall=_recall(found[-QUERIES:], exact),
        top_recall=float(np.mean(np.array(tops[-QUERIES:]) >= cosines.max(axis=1) - 1e-5)),
    )


async def _fill(engine: AsyncEngine, stored: Vectors) -> float:
    """Replace all chunks by `stored`, and build the index over them; the time of the latter [s]."""
    place = VectorSpace(encoder_id=1, dimension=DIMENSION)
    async with engine.begin() as connection:
        await connection.execute(text("TRUNCATE router.encoders, router.documents, router.chunks, router.experiences"))
        await connection.execute(text("DROP INDEX IF EXISTS router.ix_chunks_embedding_1"))
        await connection.execute(
            text("INSERT INTO router.encoders OVERRIDING SYSTEM VALUE VALUES (1, 'bench', :dimension)"),
            {"dimension": DIMENSION},
        )
        await connection.execute(
            text(
                "INSERT INTO router.documents VALUES ('d', '', '{}', '', 0, :chunks, 800, 100, 1, now())",
            ),
            {"chunks": len(stored)},
        )
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        async with raw.cursor() as cursor, cursor.copy("COPY router.chunks FROM STDIN") as copy:
            for at in range(0, len(stored), COPIED_AT_ONCE):
                rows = enumerate(stored[at : at + COPIED_AT_ONCE], start=at)
                await copy.write("".join(f"d\t{number}\t{number}\t1\t{vector_text(row)}\n" for number, row in rows))
    began = time.perf_counter()
    async with engine.begin() as connection:
        await connection.execute(text(f"SET LOCAL maintenance_work_mem = '{BUILD_MEMORY}'"))
        for statement in indexes(place):
            await connection.execute(text(statement))
    build_s = time.perf_counter() - began
    async with engine.begin() as connection:
        await connection.execute(text("ANALYZE router.chunks"))
    return build_s


async def _timed(ask: Callable[[Embedded], Awaitable[None]], queries: list[Embedded]) -> tuple[float, float]:
    """Median and 95th percentile of one question at a time [ms], after one round to warm up."""
    took = []
    for timed in (False, True):
        for query in queries:
            began = time.perf_counter()
            await ask(query)
            if timed:
                took.append((time.perf_counter() - began) * 1000)
    return float(np.quantile(took, 0.5)), float(np.quantile(took, 0.95))


def _recall(found: list[list[int]], exact: "np.ndarray") -> float:
    """Share of the exact nearest that were found."""
    return float(np.mean([len(set(some) & set(best.tolist())) / HITS for some, best in zip(found, exact, strict=True)]))


def main() -> None:
    """Measure every size and print a row for each."""
    most = int(os.environ.get("BENCH_MOST_CHUNKS", SIZES[-1]))
    with Database() as database:
        migrations.migrate("services.router", database.url)
        sys.stdout.write(HEAD)
        for kind, make in (("random", random_directions), ("clustered", clustered)):
            for chunks in (size for size in SIZES if size <= most):
                sys.stdout.write(asyncio.run(measure(database.url, kind, make, chunks)).row() + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
