"""The declarative base and the column types every table shares."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID, uuid4

from sqlalchemy import CHAR, BigInteger, DateTime, MetaData, Text, func
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# An index over words. Without a pending list: its clearing out would hold up whoever comes upon it.
GIN: dict[str, Any] = {"postgresql_using": "gin", "postgresql_with": {"fastupdate": "off"}}


class Base(DeclarativeBase):
    """All tables; constraint names follow one pattern so that a migration can name them."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads a plain dict
        datetime: DateTime(timezone=True),
        bytes: BYTEA,
        str: Text,
        int: BigInteger,
    }


Id = Annotated[UUID, mapped_column(primary_key=True, default=uuid4)]
Sha256 = Annotated[str, mapped_column(CHAR(64))]
CreatedAt = Annotated[datetime, mapped_column(server_default=func.clock_timestamp())]
