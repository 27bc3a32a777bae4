"""What is set at run time is kept for its owner alone if it is secret, and believed only then (F13)."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from coordinator.topics.dynamic_settings import FILE_NAME, read_dynamic, write_dynamic
from coordinator.topics.settings import DynamicSettings
from storage.files import Files, StorageError

SECRET = DynamicSettings({"listener.name.tls.ssl.key.password": "canary"}, {})
OPEN = DynamicSettings({"max.connections": "5"}, {})


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o644, 0o666])
def test_secrets_that_others_may_use_are_refused(tmp_path: Path, mode: int) -> None:
    write_dynamic(Files(), tmp_path, SECRET)
    path = tmp_path / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_dynamic(Files(), tmp_path) == SECRET
    path.chmod(mode)
    with pytest.raises(StorageError, match=f"mode {mode:03o}") as refused:
        read_dynamic(Files(), tmp_path)
    assert "canary" not in str(refused.value)


def test_what_is_no_secret_may_be_read_by_all(tmp_path: Path) -> None:
    write_dynamic(Files(), tmp_path, OPEN)
    (tmp_path / FILE_NAME).chmod(0o644)
    assert read_dynamic(Files(), tmp_path) == OPEN
