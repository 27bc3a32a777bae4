"""The runner of the mutants: what a patch's header means, what a rotation takes, that no net goes unproved."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness.rotation import tree_id
from tests.mutations import __main__ as runner
from tests.mutations import nets, rotation
from tests.mutations.__main__ import judge
from tests.mutations.mutants import DEFAULT_NET, ROOT, BadHeader, Mutant, read_mutant
from tests.mutations.rotation import UnknownRevision, changed_files, concerns, rotated

DIFF = """\
diff --git a/storage/notes.txt b/storage/notes.txt
--- a/storage/notes.txt
+++ b/storage/notes.txt
@@ -1,2 +1,2 @@
 one
-two
+three
"""


def patch_of(folder: Path, header: str, diff: str = DIFF) -> Path:
    patch = folder / "some_mutant.patch"
    patch.write_text(header + diff)
    return patch


def mutant(name: str, *touched: str, net: tuple[str, ...] = ("tests/test_clock.py",)) -> Mutant:
    return Mutant(name, Path(f"{name}.patch"), net, None, frozenset(touched))


def test_a_patch_without_a_header_is_for_the_default_net_and_the_simulation(tmp_path: Path) -> None:
    read = read_mutant(patch_of(tmp_path, ""))
    assert (read.net, read.simulation) == (DEFAULT_NET, ())
    assert read.name == "some_mutant"
    assert read.packages == {"storage"}


def test_a_header_names_the_net_and_the_simulation_that_sees(tmp_path: Path) -> None:
    header = "# Some prose.\n# net: tests/a.py::test_b tests/c\n# net: tests/d.py\n# simulation: blind\n"
    read = read_mutant(patch_of(tmp_path, header))
    assert (read.net, read.simulation) == (("tests/a.py::test_b", "tests/c", "tests/d.py"), None)


@pytest.mark.parametrize(
    "header", ["# nets: tests/a.py\n", "# simulation: dumb\n", "# net:\n", "# Mind: prose\n"]
)
def test_a_header_that_cannot_be_meant_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(BadHeader):
        read_mutant(patch_of(tmp_path, header))


def test_a_patch_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadHeader):
        read_mutant(patch_of(tmp_path, "# net: tests/a.py\n", diff=""))


def test_git_skips_the_header(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, "# net: tests/a.py\n# simulation: blind\n# Some prose.\n")
    notes = tmp_path / "storage" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("one\ntwo\n")
    nets.break_it(tmp_path, read_mutant(patch))
    assert notes.read_text() == "one\nthree\n"


@pytest.mark.parametrize("line", ["three", "  three"])
def test_a_patch_that_leaves_no_python_is_no_mutant(tmp_path: Path, line: str) -> None:
    """A daemon that cannot be imported fails any test that starts one."""
    diff = DIFF.replace("notes.txt", "notes.py").replace("+three", f"+{line}")
    notes = tmp_path / "storage" / "notes.py"
    notes.parent.mkdir()
    notes.write_text("one\ntwo\n")
    broken = read_mutant(patch_of(tmp_path, "# net: tests/a.py\n# simulation: blind\n", diff))
    with pytest.raises(SyntaxError) if line.startswith(" ") else nullcontext():
        nets.break_it(tmp_path, broken)


def test_a_rotation_takes_what_changed_and_a_share_of_the_others() -> None:
    of_groups = [mutant(f"groups_{n}", "coordinator/groups/classic/group.py") for n in range(4)]
    of_storage = [mutant(f"storage_{n}", "storage/files.py") for n in range(50)]
    changed = frozenset({"coordinator/groups/classic/heartbeat.py", "README.md"})
    taken = [set(_names(rotated(of_groups + of_storage, changed, f"{tree:x}"))) for tree in range(40, 65)]
    for names in taken:
        assert names > set(_names(of_groups))
        assert len(names) == 4 + 2
    assert set.union(*taken) == set(
        _names(of_groups + of_storage)
    )  # Each is tried in so many trees in a row.


def _names(mutants: list[Mutant]) -> list[str]:
    return [each.name for each in mutants]


@pytest.mark.parametrize(
    ("file", "is_concerned"),
    [
        ("storage/flusher.py", True),  # The package that it breaks.
        ("tests/mutations/broken_sync.patch", True),
        ("tests/storage/test_sync.py", True),  # Its net.
        ("tests/log/test_rows.py", True),  # Below a directory of its net.
        ("coordinator/storage/flusher.py", False),
        ("tests/storage/test_other.py", False),
    ],
)
def test_whom_a_changed_file_concerns(file: str, is_concerned: bool) -> None:
    net = ("tests/storage/test_sync.py::test_order", "tests/log")
    assert concerns(mutant("broken_sync", "storage/files.py", net=net), frozenset({file})) is is_concerned


def test_what_changed_is_counted_from_where_the_branch_left_main(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "storage/files.py")
    assert changed_files(tmp_path, None) == frozenset()  # There is no origin/main.
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    first_tree = tree_id(tmp_path)
    commit(tmp_path, "coordinator/runtime/clock.py")
    (tmp_path / "new.py").write_text("not committed")
    assert changed_files(tmp_path, None) == {"coordinator/runtime/clock.py", "new.py"}
    assert changed_files(tmp_path, "HEAD") == {"new.py"}
    assert tree_id(tmp_path) != first_tree
    with pytest.raises(UnknownRevision):
        changed_files(tmp_path, "no-such-branch")


def test_without_a_repository_nothing_counts_as_changed(tmp_path: Path) -> None:
    assert changed_files(tmp_path, None) == frozenset()
    assert rotated([mutant("a", "storage/files.py")], frozenset(), tree_id(tmp_path)) != []


def git(repository: Path, *command: str) -> None:
    own = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *own, *command], cwd=repository, check=True, capture_output=True)


def commit(repository: Path, file: str) -> None:
    (repository / file).parent.mkdir(parents=True, exist_ok=True)
    (repository / file).write_text(file)
    git(repository, "add", file)
    git(repository, "commit", "-q", "-m", file)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("def test_x(): pass", None),
        ("def test_x(): assert False", "FAILED"),
        ("import nothing_of_that_name", "ERROR"),
        ("import pytest\ndef test_x(): pytest.skip('without a disk')\ndef test_y(): pass", "1 skipped"),
        ("x = 1", "no tests ran"),
    ],
)
def test_a_net_has_to_pass_on_a_whole_copy(tmp_path: Path, test: str, says: str | None) -> None:
    (tmp_path / "test_net.py").write_text(test + "\n")
    objection = nets.objection(tmp_path, ("test_net.py",))
    assert objection is None if says is None else says in (objection or "")


def test_a_test_that_cannot_be_imported_catches_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_net.py").write_text("import nothing_of_that_name\n")
    assert nets.test_that_fails(tmp_path, ("test_net.py",)) is None
    (tmp_path / "test_net.py").write_text("def test_x(): assert False\n")
    assert nets.test_that_fails(tmp_path, ("test_net.py",)) == "test_net.py::test_x"


def test_a_share_without_a_mutant_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rotation, "changed_files", lambda root, base: frozenset())
    monkeypatch.setattr(runner, "tree_id", {ROOT: "1"}.__getitem__)
    assert runner.main(["--rotate", "sync_nothing"]) == 2
    said = capsys.readouterr()
    assert said.out.startswith("0 of ")
    assert "without --rotate they are tried" in said.err


def test_a_net_that_fails_unbroken_fails_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the mutants of the others are tried all the same: a whole run takes more than an hour."""
    gone = mutant("some", "storage/files.py", net=("tests/of_no_file.py",))
    other = mutant("other", "storage/files.py", net=("tests/mutations/test_rotation.py",))
    tried: list[str] = []

    def judged(each: Mutant, _: Path) -> runner.Verdict:
        tried.append(each.name)
        return runner.Verdict(each, "a test", None, 0.0)

    monkeypatch.setattr(runner, "_judge", judged)
    monkeypatch.setattr(nets, "objection", lambda _, net: "no such file" if net == gone.net else None)
    assert judge([gone, other]) == 1
    assert "does not pass unbroken: tests/of_no_file.py" in capsys.readouterr().out
    assert tried == ["other"]


def test_a_mutant_that_gets_through_its_net_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_line = (ROOT / "storage" / "files.py").read_text().splitlines()[0]
    diff = f"--- a/storage/files.py\n+++ b/storage/files.py\n@@ -1 +1,2 @@\n+# Harmless.\n {first_line}\n"
    net = "tests/mutations/test_patches.py::test_the_mutants_that_matter_are_there"
    header = f"# net: {net}\n# simulation: blind\n"
    assert judge([read_mutant(patch_of(tmp_path, header, diff))]) == 1
    assert "NOT CAUGHT" in capsys.readouterr().out
