"""The settings of quotas; a part of `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class QuotaSettings(BaseModel):
    """The settings of quotas."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.
