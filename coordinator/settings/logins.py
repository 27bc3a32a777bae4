"""The settings of logins: SASL mechanisms, their users, and what strangers may use up; a part of `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class LoginSettings(BaseModel):
    """The settings of logins: SASL mechanisms, their users, and what strangers may use up."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.
