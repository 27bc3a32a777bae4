"""The settings of TLS: keys, certificates, and what clients have to show; a part of `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class EncryptionSettings(BaseModel):
    """The settings of TLS: keys, certificates, and what clients have to show."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.
