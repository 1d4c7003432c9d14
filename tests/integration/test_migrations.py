"""Schemas that another build made."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

from chassis.errors import ConfigurationInvalid
from chassis.schema import migrations
from configuration.services import WITH_SCHEMA


@pytest.fixture
def own_database(database_url: str) -> Iterator[str]:
    """A database of one test, on the server of this session."""
    url = make_url(database_url)
    name = f"migrations_{uuid4().hex}"
    with psycopg.connect(_libpq(database_url), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield url.set(database=name).render_as_string(hide_password=False)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.mark.parametrize("service", WITH_SCHEMA)
def test_a_database_of_another_build_is_rejected_with_what_to_do(own_database: str, service: str) -> None:
    migrations.migrate(f"services.{service}", own_database)
    with psycopg.connect(_libpq(own_database), autocommit=True) as connection:
        connection.execute(f"UPDATE {service}.alembic_version SET version_num = '0099_of_old'")

    with pytest.raises(ConfigurationInvalid) as rejected:
        migrations.migrate(f"services.{service}", own_database)

    message = rejected.value.message
    assert f"schema {service} of the database is at revision 0099_of_old, which this build does not have" in message
    assert "METACOG_DATABASE_URL" in message
    assert f'DROP SCHEMA "{service}" CASCADE' in message
    assert rejected.value.metadata == {"setting": "METACOG_DATABASE_URL", "revision": "0099_of_old"}


@pytest.mark.parametrize("service", WITH_SCHEMA)
def test_a_rejected_schema_is_left_as_it_is_and_may_be_dropped(own_database: str, service: str) -> None:
    migrations.migrate(f"services.{service}", own_database)
    with psycopg.connect(_libpq(own_database), autocommit=True) as connection:
        connection.execute(f"UPDATE {service}.alembic_version SET version_num = '0099_of_old'")
        with pytest.raises(ConfigurationInvalid):
            migrations.migrate(f"services.{service}", own_database)
        (found,) = connection.execute(f"SELECT version_num FROM {service}.alembic_version").fetchall()
        assert found == ("0099_of_old",)

        connection.execute(f'DROP SCHEMA "{service}" CASCADE')
    migrations.migrate(f"services.{service}", own_database)


@pytest.mark.parametrize("service", WITH_SCHEMA)
def test_a_second_migration_changes_nothing(own_database: str, service: str) -> None:
    migrations.migrate(f"services.{service}", own_database)
    migrations.migrate(f"services.{service}", own_database)
