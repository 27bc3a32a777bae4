"""The settings of rights: the authorizer; a part of `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PermissionSettings(BaseModel):
    """The settings of rights: the authorizer."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.
