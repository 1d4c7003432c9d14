"""Files and batches are tested on tables that hold no others."""

import psycopg
import pytest


@pytest.fixture
def empty_database_url(database_url: str) -> str:
    """The database of the session, without files and batches."""
    with psycopg.connect(database_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("TRUNCATE router.files, router.file_lines, router.batches, router.batch_lines")
    return database_url
