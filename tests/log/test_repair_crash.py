"""A repair that is cut off after any of its operations: the source is as it was, the target whole or absent."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from harness.doubles.faulty_files import FaultyFiles, Operation
from muster.log.places import open_source
from muster.log.repair import UNFINISHED, repair
from tests.log.directories import TOPIC, everything_in, first_segment, flip, history, make_directory


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_crash_at_any_operation_leaves_the_source_and_no_half_target(
    tmp_path: Path, seed: int | None
) -> None:
    """Of what was not synced nothing survives, or whatever the seed draws."""
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    image.mkdir()
    directory = make_directory(disk / "logs", history()[:4])
    flip(first_segment(directory, f"{TOPIC}-0"), 70)  # Something to lose.
    before = everything_in(directory)
    files = FaultyFiles(disk)
    targets: list[dict[str, bytes] | None] = []

    def look(_: Operation) -> None:
        files.fault = None
        files.put_image(image, None if seed is None else Random(seed + len(targets)))
        files.fault = look
        assert everything_in(image / "logs") == before
        targets.append(everything_in(image / "repaired") if (image / "repaired").exists() else None)

    files.fault = look
    repair(open_source(directory, files), disk / "repaired", lambda _: None)
    files.fault = None
    files.put_image(image, None)
    whole = everything_in(image / "repaired")
    assert not (image / f"repaired{UNFINISHED}").exists()
    assert len(targets) > 100
    assert all(target in (None, whole) for target in targets)
