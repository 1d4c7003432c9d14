"""Statements that find the nearest vectors.

Encoder and dimension stand in them as numbers, for only so does PostgreSQL see that a partial index fits. Nothing else
does: every text is a parameter.
"""

from collections.abc import Sequence

from kernel.values import value
from services.router.store.tables import SCHEMA

# Longest vectors that an HNSW index of pgvector takes, as 32-bit and as 16-bit numbers.
MOST_INDEXED, MOST_INDEXED_HALVED = 2000, 4000

# How many candidates a scan keeps: the default of pgvector is 40, the most it allows is 1000.
CANDIDATES, MOST_CANDIDATES = 100, 1000


@value
class VectorSpace:
    """Where the vectors of one encoder are.

    Attributes:
        encoder_id: Number of the encoder.
        dimension: Length of its vectors [count].
    """

    encoder_id: int
    dimension: int

    @property
    def kind(self) -> str:
        """Type under which they are indexed and compared.

        Example:
            >>> [VectorSpace(encoder_id=1, dimension=size).kind for size in (384, 3072)]
            ['vector(384)', 'halfvec(3072)']
        """
        halved = MOST_INDEXED < self.dimension <= MOST_INDEXED_HALVED
        return f"{'halfvec' if halved else 'vector'}({self.dimension})"

    def distance(self, query: str) -> str:
        """Cosine distance of a row to the parameter `query`."""
        return f"CAST(embedding AS {self.kind}) <=> CAST(:{query} AS {self.kind})"


def indexes(place: VectorSpace) -> Sequence[str]:
    """Statements that make the vectors of an encoder searchable; none where they are too long for an index."""
    if place.dimension > MOST_INDEXED_HALVED:
        return ()
    operators = place.kind.partition("(")[0] + "_cosine_ops"
    return [
        f"CREATE INDEX IF NOT EXISTS ix_{table}_embedding_{place.encoder_id} ON {SCHEMA}.{table} "
        f"USING hnsw ((CAST(embedding AS {place.kind})) {operators}) WHERE encoder_id = {place.encoder_id}"
        for table in ("chunks", "experiences")
    ]


def tuning(far: int) -> str:
    """Statement that lets one transaction look as far as `far` hits, and past those that a condition leaves out."""
    candidates = min(MOST_CANDIDATES, max(CANDIDATES, far))
    return (
        "SELECT set_config('hnsw.iterative_scan', 'strict_order', true), "
        f"set_config('hnsw.ef_search', '{candidates}', true)"
    )


def nearest_of(place: VectorSpace, queries: Sequence[str], *, keyed: bool) -> str:
    """Statement for the cosine of the nearest text by source, over all parameters in `queries`."""
    parts = [
        f"(SELECT '{source}' AS source, {place.distance(query)} AS distance FROM {SCHEMA}.{table} "
        f"WHERE {_of(place, keyed=keyed and table == 'experiences')} ORDER BY {place.distance(query)} LIMIT 1)"
        for source, table in (("knowledge", "chunks"), ("experience", "experiences"))
        for query in queries
    ]
    return f"SELECT source, 1 - min(distance) FROM ({' UNION ALL '.join(parts)}) AS nearest GROUP BY source"


def search_of(place: VectorSpace, kinds: Sequence[str], *, keyed: bool) -> str:
    """Statement for hits of `kinds`; parameters: query, far, least, rank, most and, if `keyed`, key_name."""
    parts = [{"DOCUMENT": _documents, "EXPERIENCE": _experiences}[kind](place, keyed) for kind in kinds]
    return (
        f"SELECT * FROM ({' UNION ALL '.join(parts)}) AS hits WHERE similarity >= :least "
        "ORDER BY similarity DESC, kind, document_id, chunk, run_id OFFSET :rank LIMIT :most"
    )


def _documents(place: VectorSpace, _keyed: bool) -> str:
    return (
        "(SELECT 'DOCUMENT' AS kind, document_id, title, labels, ordinal AS chunk, '' AS run_id, text, '' AS answer, "
        f"1 - distance AS similarity FROM (SELECT document_id, ordinal, text, {place.distance('query')} AS distance "
        f"FROM {SCHEMA}.chunks WHERE {_of(place, keyed=False)} ORDER BY distance LIMIT :far) AS near "
        f"JOIN {SCHEMA}.documents USING (document_id))"
    )


def _experiences(place: VectorSpace, keyed: bool) -> str:
    return (
        "(SELECT 'EXPERIENCE' AS kind, '' AS document_id, '' AS title, CAST('{}' AS jsonb) AS labels, NULL AS chunk, "
        "run_id, question AS text, answer, 1 - distance AS similarity FROM "
        f"(SELECT run_id, question, answer, {place.distance('query')} AS distance FROM {SCHEMA}.experiences "
        f"WHERE {_of(place, keyed=keyed)} ORDER BY distance LIMIT :far) AS near)"
    )


def _of(place: VectorSpace, *, keyed: bool) -> str:
    return f"encoder_id = {place.encoder_id}" + (" AND key_name = :key_name" if keyed else "")
