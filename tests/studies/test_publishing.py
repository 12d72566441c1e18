"""A study published as one file is repeated elsewhere to the last digit; archives are not trusted."""

import json
import os
import shutil
import stat
import zipfile

import pytest

from attnlab.config.imports import import_code
from attnlab.config.values import ConfigError
from attnlab.studies.archive import MANIFEST, unpack, write_archive
from attnlab.studies.publishing import open_study, publish
from attnlab.studies.resolved import resolve
from attnlab.studies.runner import run_study
from attnlab.studies.study_files import load_study
from tests.own_code import RULE, new_session
from tests.session.commands import answer, command
from tests.studies.here import here
from tests.studies.small_study import numbers, study

ARMS = {"dot": {}, "mine": {"model.attention": "own_distance"}}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A study with own code, run."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "mine.py").write_text(RULE)
    with new_session(), here(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.session.soundness.run_checks", lambda case, names=(): [])
        import_code(folder / "mine.py")
        asked = study(folder, arms=ARMS, seeds=1, budget={"steps": 3}, probes=())
        return run_study(resolve(asked), folder / "study")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Another place, where nothing of this one is known."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with new_session():
        yield tmp_path / "other"


def test_a_published_study_is_repeated_to_the_last_digit(ended, elsewhere, unchecked, monkeypatch):
    """With its data and its code, which is run only after it was agreed to; no path of the first place."""
    published = publish(ended.folder, elsewhere / "study.zip", with_data=True)
    assert published.code == ("code/mine.py",) and published.data and not published.left_out
    with zipfile.ZipFile("study.zip") as archive:
        texts = [archive.read(name) for name in ("study.json", "study.toml", MANIFEST)]
    assert all(str(ended.folder.parent).encode() not in text for text in texts)
    hidden = ended.folder.parent.rename(ended.folder.parent.with_name("gone"))
    try:
        with pytest.raises(
            ConfigError, match=r"uses the code of mine.py .*agree with --import study/code/mine\.py"
        ):
            open_study("study.zip")
        with pytest.raises(ConfigError, match="asks to run the code of mine"):
            load_study("study/study.toml")
        import_code("study/code/mine.py")
        asked = resolve(open_study("study.zip"))
        with here():
            again = run_study(asked, elsewhere / "again")
        assert not again.failed, again.failed
    finally:
        hidden.rename(ended.folder.parent)
    ours, theirs = (numbers(one.results)["runs"] for one in (ended, again))
    assert ours == theirs
    monkeypatch.chdir("study")  # in which its TOML is the same study
    assert resolve(load_study("study.toml")).identity == resolve(open_study(".")).identity


def test_data_that_is_left_out_is_named_by_its_hash(ended, elsewhere):
    published = publish(ended.folder, elsewhere / "study.zip")
    (name,) = published.left_out
    (source,) = [file for file in ended.folder.parent.iterdir() if file.name == name.partition("/")[2]]
    with pytest.raises(
        ConfigError, match=rf"published without {source.name} .*SHA-256 \w{{64}}\); put it at study/"
    ):
        open_study("study.zip")
    (elsewhere / "study" / "data").mkdir()
    (elsewhere / "study" / name).write_text("another text")
    with pytest.raises(ConfigError, match="is not the file of the published study"):
        open_study("study.zip")
    shutil.copy(source, elsewhere / "study" / name)
    import_code("study/code/mine.py")
    assert open_study("study.zip").arms.keys() == ARMS.keys()


def test_a_folder_and_its_study_json_are_studies(ended, elsewhere):
    import_code(ended.folder.parent / "mine.py")
    for source in (ended.folder, ended.folder / "study.json"):
        assert resolve(open_study(source)).identity == ended_identity(ended)
    refused = command("run", ended.folder, "--out", ended.folder)
    assert "already holds a study" in str(refused.exception)


def ended_identity(ended):
    return json.loads((ended.folder / "study.json").read_text())["identity"]


def test_code_that_was_changed_is_not_published_nor_run(ended, elsewhere):
    publish(ended.folder, elsewhere / "study.zip")
    file = ended.folder.parent / "mine.py"
    file.write_text(RULE + "\n# another\n")
    try:
        with pytest.raises(ConfigError, match="has changed since the study was run"):
            publish(ended.folder, elsewhere / "other.zip")
    finally:
        file.write_text(RULE)


def test_the_command(ended, elsewhere):
    said = answer("publish", ended.folder, elsewhere / "study.zip")
    assert said["code"] == ["code/mine.py"] and said["left_out"]
    for arguments, fault in [
        ((ended.folder, "study.zip"), "already exists"),
        ((ended.folder, "study.tar"), "must end in .zip"),
        ((elsewhere, "new.zip"), "holds no study"),
    ]:
        assert fault in str(command("publish", *arguments).exception)


# ---------------------------------------------------------------- archives of others
def archive_of(file, *entries, listed=None):
    """A zip file with these entries, and a list that agrees with it unless another is given."""
    import hashlib

    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {
            getattr(name, "filename", name): {
                "sha256": hashlib.sha256(content).hexdigest(),
                "bytes": len(content),
            }
            for name, content in entries
        }
        manifest = {"format": 1, "files": files if listed is None else listed}
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, content in entries:
            archive.writestr(name, content)
    return file


def link(name):
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    "name",
    [
        "../outside.py",
        "/tmp/outside.py",
        "code/../../outside.py",
        "..\\outside.py",
        "c:outside",
        "a//b",
        "./a",
    ],
)
def test_no_file_leaves_the_folder(tmp_path, name):
    archive = archive_of(tmp_path / "evil.zip", (name, b"x"))
    with pytest.raises(ConfigError, match=r"would leave its folder|is a link or folder|in its list"):
        unpack(archive, tmp_path / "inside" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.zip"] and not os.path.exists(
        "/tmp/outside.py"
    )


def test_links_bombs_and_other_files_are_refused(tmp_path):
    cases = {
        "a link or folder": archive_of(tmp_path / "link.zip", (link("code/x.py"), b"/etc/passwd")),
        "times smaller": archive_of(tmp_path / "bomb.zip", ("data/x", bytes(8 << 20))),
        "not in both": archive_of(tmp_path / "more.zip", ("data/x", b"x"), listed={}),
        "is not the file that was published": archive_of(
            tmp_path / "hash.zip", ("data/x", b"x"), listed={"data/x": {"sha256": "0" * 64, "bytes": 1}}
        ),
        "damaged": archive_of(tmp_path / "list.zip", ("data/x", b"x"), listed={"data/x": {"sha256": 1}}),
        "more than": archive_of(
            tmp_path / "huge.zip", ("data/x", b"x"), listed={"data/x": {"sha256": "0" * 64, "bytes": 1 << 40}}
        ),
    }
    for fault, archive in cases.items():
        with pytest.raises(ConfigError, match=fault):
            unpack(archive, tmp_path / "folder")
        assert not (tmp_path / "folder").exists(), "all or nothing"
    (tmp_path / "cut.zip").write_bytes((tmp_path / "more.zip").read_bytes()[:-30])
    with pytest.raises(ConfigError, match="not a whole zip file"):
        unpack(tmp_path / "cut.zip", tmp_path / "folder")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "nothing is left over"


def test_a_file_is_not_unpacked_beyond_its_listed_size(tmp_path, monkeypatch):
    """An entry may lie about its size: what counts is what comes out, and no more of it is read."""
    listed = {"data/x": {"sha256": "", "bytes": 7}}
    file = archive_of(tmp_path / "lies.zip", ("data/x", b"xyz" * 1000), listed=listed)
    taken, read = [], zipfile.ZipExtFile.read

    def counted(stream, size=-1):
        taken.append(read(stream, size))
        return taken[-1]

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    monkeypatch.setattr("attnlab.studies.archive.CHUNK", 4)
    with pytest.raises(ConfigError, match="is not the file that was published"):
        unpack(file, tmp_path / "folder")
    assert sum(len(part) for part in taken if part.startswith((b"x", b"y", b"z"))) == 8, "two chunks"


def test_what_is_there_already_stays(tmp_path):
    (tmp_path / "notes.txt").write_text("text")
    write_archive(tmp_path / "a.zip", {"data/notes.txt": tmp_path / "notes.txt", "study.json": b"{}"}, {})
    unpack(tmp_path / "a.zip", tmp_path / "a")
    (tmp_path / "a" / "data" / "notes.txt").write_text("changed by its owner")
    unpack(tmp_path / "a.zip", tmp_path / "a")
    assert (tmp_path / "a" / "data" / "notes.txt").read_text() == "changed by its owner"
    write_archive(tmp_path / "b.zip", {"study.json": b"[]"}, {})
    with pytest.raises(ConfigError, match="is there already"):
        unpack(tmp_path / "b.zip", tmp_path / "a")
    first = (tmp_path / "a.zip").read_bytes()
    write_archive(tmp_path / "a.zip", {"data/notes.txt": tmp_path / "notes.txt", "study.json": b"{}"}, {})
    assert (tmp_path / "a.zip").read_bytes() == first, "the same study makes the same archive"
