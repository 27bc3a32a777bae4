"""The settings of rights: the authorizer; a part of `Settings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from coordinator.settings.types import FreeText, Switch

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one authorizer that Kafka has, and that Muster does as."""


@dataclass(frozen=True, slots=True)
class AuthorizerClass(FreeText):
    """The class of an authorizer, as Kafka names it, or blank."""

    optional: bool = True

    @property
    def allowed(self) -> str:
        return f"{STANDARD_AUTHORIZER}, or empty"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or value.strip() not in ("", STANDARD_AUTHORIZER):
            raise ValueError(self.allowed)
        return value.strip()


@dataclass(frozen=True, slots=True)
class Principals(FreeText):
    """A list of principals; the value is the checked text itself, since names may have commas."""

    optional: bool = True

    @property
    def allowed(self) -> str:
        return "a list separated by semicolons of User:name"

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not all(":" in principal for principal in principals_of(value)):
            raise ValueError(self.allowed)
        return value.strip()


def principals_of(text: str) -> frozenset[str]:
    """Return the principals in a list that is separated by semicolons; blanks around them do not count (A1)."""
    stripped = (part.strip() for part in text.split(";"))
    return frozenset(principal for principal in stripped if principal)


class PermissionSettings(BaseModel):
    """The settings of rights: the authorizer."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    authorizer_class_name: Annotated[str, AuthorizerClass()] = Field(
        "", description="What decides who may do what; empty: everybody may do everything."
    )
    super_users: Annotated[str, Principals()] = Field(
        "",
        description="Principals that may do everything, whatever ACLs say. DescribeConfigs does not show them.",
    )
    allow_everyone_if_no_acl_found: Switch = Field(
        False, description="Whether a resource that no ACL concerns is open to all principals."
    )
