"""What every service's Alembic environment does: one schema of its own, one lock, one transaction."""

from alembic import context
from sqlalchemy import Connection, MetaData, create_engine, pool, text

LOCK = 0x6D657461


def run_migrations(metadata: MetaData) -> None:
    """Run the pending migrations of the schema that `metadata` names; replicas wait for one another."""
    url = context.config.attributes["url"]
    engine = create_engine(url, poolclass=pool.NullPool, connect_args={"connect_timeout": 3})
    with engine.begin() as connection:
        _run(connection, metadata)


def _run(connection: Connection, metadata: MetaData) -> None:
    schema = metadata.schema
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    connection.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
    context.configure(
        connection=connection, target_metadata=metadata, version_table_schema=schema, include_schemas=True
    )
    with context.begin_transaction():
        context.run_migrations()
