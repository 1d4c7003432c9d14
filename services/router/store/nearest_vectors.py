"""SQL statements find the nearest vectors.

They contain encoder and dimension as numbers, since PostgreSQL uses a partial index only then. Everything else is a
parameter, and so is every text.
"""

from collections.abc import Sequence

from kernel.values import value
from services.router.store.tables import SCHEMA

# Longest vectors that an HNSW index of pgvector takes, as 32-bit and as 16-bit numbers.
MOST_INDEXED, MOST_INDEXED_HALVED = 2000, 4000

# Candidates that a scan keeps [count]: the default of pgvector is 40, the most it allows is 1000.
CANDIDATES, MOST_CANDIDATES = 100, 1000


@value
class VectorSpace:
    """A vector space holds the vectors of one encoder.

    Attributes:
        encoder_id: Number of the encoder.
        dimension: Length of its vectors [count].
    """

    encoder_id: int
    dimension: int

    @property
    def kind(self) -> str:
        """Return the SQL type by which they are indexed and compared.

        Example:
            >>> [VectorSpace(encoder_id=1, dimension=size).kind for size in (384, 3072)]
            ['vector(384)', 'halfvec(3072)']
        """
        halved = MOST_INDEXED < self.dimension <= MOST_INDEXED_HALVED
        return f"{'halfvec' if halved else 'vector'}({self.dimension})"

    def distance(self, query: str) -> str:
        """Return the SQL for the cosine distance of a row to the parameter `query`."""
        return f"CAST(embedding AS {self.kind}) <=> CAST(:{query} AS {self.kind})"


def indexes(space: VectorSpace) -> Sequence[str]:
    """Return statements that index the vectors of an encoder; none where they are too long for an index."""
    if space.dimension > MOST_INDEXED_HALVED:
        return ()
    operators = space.kind.partition("(")[0] + "_cosine_ops"
    return [
        f"CREATE INDEX IF NOT EXISTS ix_{table}_embedding_{space.encoder_id} ON {SCHEMA}.{table} "
        f"USING hnsw ((CAST(embedding AS {space.kind})) {operators}) WHERE encoder_id = {space.encoder_id}"
        for table in ("chunks", "experiences")
    ]


def tuning(far: int) -> str:
    """Return the statement that lets one transaction scan `far` hits, and past those that a condition excludes."""
    candidates = min(MOST_CANDIDATES, max(CANDIDATES, far))
    return (
        "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), "
        f"set_config('hnsw.ef_search', '{candidates}', true)"
    )


def nearest_of(space: VectorSpace, queries: Sequence[str], *, keyed: bool) -> str:
    """Return the statement for the cosine of the nearest text by source, over all parameters in `queries`."""
    parts = [
        f"(SELECT '{source}' AS source, {space.distance(query)} AS distance FROM {SCHEMA}.{table} "
        f"WHERE {_of(space, keyed=keyed and table == 'experiences')} ORDER BY {space.distance(query)} LIMIT 1)"
        for source, table in (("knowledge", "chunks"), ("experience", "experiences"))
        for query in queries
    ]
    return f"SELECT source, 1 - min(distance) FROM ({' UNION ALL '.join(parts)}) AS nearest GROUP BY source"


def search_of(space: VectorSpace, kinds: Sequence[str], *, keyed: bool) -> str:
    """Return the statement for hits of `kinds`; parameters: query, far, least, rank, most and, if `keyed`, key_name."""
    parts = [{"DOCUMENT": _documents, "EXPERIENCE": _experiences}[kind](space, keyed) for kind in kinds]
    return (
        f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS hits WHERE similarity >= :least "
        "ORDER BY similarity DESC, kind, document_id, chunk, run_id OFFSET :rank LIMIT :most"
    )


def _documents(space: VectorSpace, _keyed: bool) -> str:
    return (
        "(SELECT 'DOCUMENT' AS kind, document_id, title, labels, ordinal AS chunk, '' AS run_id, text, '' AS answer, "
        f"1 - distance AS similarity FROM (SELECT document_id, ordinal, text, {space.distance('query')} AS distance "
        f"FROM {SCHEMA}.chunks WHERE {_of(space, keyed=False)} ORDER BY distance LIMIT :far) AS near "
        f"JOIN {SCHEMA}.documents USING (document_id))"
    )


def _experiences(space: VectorSpace, keyed: bool) -> str:
    return (
        "(SELECT 'EXPERIENCE' AS kind, '' AS document_id, '' AS title, CAST('{}' AS jsonb) AS labels, NULL AS chunk, "
        "run_id, question AS text, answer, 1 - distance AS similarity FROM "
        f"(SELECT run_id, question, answer, {space.distance('query')} AS distance FROM {SCHEMA}.experiences "
        f"WHERE {_of(space, keyed=keyed)} ORDER BY distance LIMIT :far) AS near)"
    )


def _of(space: VectorSpace, *, keyed: bool) -> str:
    return f"encoder_id = {space.encoder_id}" + (" AND key_name = :key_name" if keyed else "")
