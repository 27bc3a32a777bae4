"""The settings of quotas; a part of `Settings`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from coordinator.settings.types import Count


class QuotaSettings(BaseModel):
    """The settings of quotas."""

    model_config = ConfigDict(defer_build=True)  # Only `Settings` is built, and without plugins.

    quota_window_num: Count = Field(
        11, description="Samples that the rates of clients' and addresses' quotas are made of."
    )
    quota_window_size_seconds: Count = Field(1, description="Time that each of these samples spans.")
    controller_quota_window_num: Count = Field(
        11, description="Samples of the quota of partitions made and removed; all may be used up at once."
    )
    controller_quota_window_size_seconds: Count = Field(
        1, description="Time that each of those samples spans."
    )
