"""Field types that several resources share, with the texts a client sees when they do not fit."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

# The largest integer that every language reads exactly from JSON. Nothing here counts so far (ns of 104 days,
# 8 PiB), so that all integers are numbers and none is a text.
EXACT: Final = 2**53 - 1

Hex64 = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{64}$"),
    Field(description="SHA-256, 64 lower-case hexadecimal digits", examples=["5284f484" + "0" * 56]),
]
Hex40 = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{40}$"),
    Field(description="git object id, 40 lower-case hexadecimal digits", examples=["eabe7fd" + "0" * 33]),
]
NodeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"), Field(examples=["node-a"])]
# PostgreSQL's text cannot hold NUL, and a name with control characters is a mistake or an attack.
Line = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]


class Body(BaseModel):
    """A request body: unknown fields are refused, values are not coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Resource(BaseModel):
    """A response body."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class TotalResource(Resource):
    """How many entries a list has under its filters."""

    count: int = Field(description="counted up to 1000")
    is_exact: bool = Field(description="false: there are more than `count`")
