"""All tables of the router share their schema."""

from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase

SCHEMA = "router"


class RouterTable(DeclarativeBase):
    """All tables of the router have this base."""

    metadata = MetaData(schema=SCHEMA)
