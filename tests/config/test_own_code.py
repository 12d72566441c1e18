"""Code of a person's own: run when it is named and at no other time, recorded by what it does."""

import json

import pytest

from attnlab.config.files import load
from attnlab.config.imports import IMPORTED, code_of, find, import_code, own_parts, require_code
from attnlab.config.values import ConfigError
from attnlab.model.attention import ATTENTION
from attnlab.model.attention.dot import Dot
from attnlab.studies.study_files import load_study
from tests.own_code import RULE, new_session

MARK = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


@pytest.fixture(autouse=True)
def session():
    with new_session():
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(RULE + MARK)
    return tmp_path


def ran(folder):
    return bool(list(folder.rglob("*.ran")))


STUDY = 'question = "Why?"\n{}\n[arms.dot]\n[arms.mine]\nmodel.attention = "own_distance"\n'


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("given.toml", 'imports = ["mine"]\n[model]\nattention = "own_distance"\n'),
        ("given.toml", 'imports = ["mine.py"]\n[model]\nattention = "own_distance"\n'),
        ("study.toml", STUDY.format('imports = ["mine"]')),
        ("study.toml", STUDY.format('extras = "mine:Thing"')),
    ],
)
def test_a_file_that_asks_for_code_does_nothing_until_the_person_names_it(folder, file, text):
    (folder / file).write_text(text)
    with pytest.raises(ConfigError, match=r"asks to run the code of mine\.py \(hash [0-9a-f]{16}\)") as error:
        load_study(file) if file == "study.toml" else load(file)
    assert "--import mine.py" in str(error.value) and not ran(folder)
    import_code("mine.py")
    assert ran(folder)
    if "extras" in text:
        with pytest.raises(ConfigError, match="has no attribute 'Thing'"):  # looked at only now
            load_study(file)
    elif file == "study.toml":
        assert load_study(file).config("mine").model.attention.kind == "own_distance"
    else:
        assert load(file).model.attention.kind == "own_distance"


def test_looking_for_a_module_runs_neither_it_nor_the_packages_above_it(folder, monkeypatch):
    package = folder / "own_code_package"
    package.mkdir()
    (package / "__init__.py").write_text(MARK)
    (package / "parts.py").write_text(MARK)
    monkeypatch.syspath_prepend(str(folder))
    found = find("own_code_package.parts", folder / "elsewhere")
    assert found is not None and found.file == str(package / "parts.py") and not ran(folder)
    import_code("own_code_package.parts")
    assert (package / "parts.ran").exists() and (package / "__init__.ran").exists()


def test_it_is_run_once_and_again_when_the_file_has_changed(folder):
    """A notebook's cell that is run again, after an edit."""
    import_code("mine.py")
    first = ATTENTION["own_distance"]
    import_code("mine.py")
    assert ATTENTION["own_distance"] is first
    (folder / "mine.py").write_text(RULE.replace("0.5", "2.0"))
    import_code("mine.py")
    again = ATTENTION["own_distance"]
    assert again is not first and load(set=["model.attention=own_distance"]).model.attention.options == {
        "rate": 2.0
    }


def test_a_class_defined_twice_is_itself_and_another_is_refused():
    def defined():
        class Mine(Dot):
            """Mine."""

        return Mine

    ATTENTION.register("own_mine", defined())
    again = ATTENTION.register("own_mine", defined())
    assert ATTENTION["own_mine"] is again

    class Other(Dot):
        """Other."""

    with pytest.raises(ConfigError, match='already has "own_mine"'):
        ATTENTION.register("own_mine", Other)
    with pytest.raises(ConfigError, match='already has "dot"'):
        ATTENTION.register("dot", Dot)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("mine.py", "x = 1\ny = undefined\n", r"mine\.py, line 2: NameError: name 'undefined'"),
        ("mine.py", "def broken(:\n", r"mine\.py.*SyntaxError"),
        ("mine.py", RULE.replace("own_distance", "dot"), r'line 19: attention already has "dot"'),
        ("json.py", "x = 1\n", r'would be the module "json", and there is one .* rename the file'),
        ("no.py", "", r"--import nowhere\.py: there is neither a file nor a module"),
    ],
)
def test_code_that_cannot_be_run_is_told_with_its_line(folder, name, text, sentence):
    (folder / name).write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        import_code("nowhere.py" if name == "no.py" else name)
    assert json.loads("1") == 1


def test_what_stands_beside_it_can_be_imported(folder):
    (folder / "own_code_helper.py").write_text("RATE = 3.0\n")
    text = RULE.replace("import torch\n", "import torch\nfrom own_code_helper import RATE\n", 1)
    (folder / "sub").mkdir()
    (folder / "own_code_helper.py").rename(folder / "sub" / "own_code_helper.py")
    (folder / "sub" / "mine.py").write_text(text.replace("0.5", "RATE"))
    import_code("sub/mine.py")
    assert load(set=["model.attention=own_distance"]).model.attention.options == {"rate": 3.0}


def test_a_record_names_the_parts_that_a_config_uses_even_within_others(folder):
    code = import_code("mine.py")
    config = load(set=["model.attention=group(groups=2, inner=own_distance)"])
    assert set(own_parts(config)) == {("attention", "own_distance")}
    (held,) = code_of(config)
    assert held["hash"] == code.hash and held["parts"] == [["attention", "own_distance"]]
    IMPORTED.clear()
    assert code_of(load()) == [], "registered and not used"
    assert code_of(config) == [held], "used, however it was imported"


def test_a_part_of_a_notebook_is_asked_for_as_a_file():
    held = [{"module": "__main__", "file": "", "hash": "", "parts": [["attention", "own_distance"]]}]
    with pytest.raises(ConfigError, match=r'run uses attention "own_distance", which a notebook or script'):
        require_code(held, "run")


@pytest.mark.parametrize("wrong", ['"mine"', "[1]"])
def test_imports_is_a_list_of_names(folder, wrong):
    (folder / "given.toml").write_text(f"imports = {wrong}\n")
    with pytest.raises(ConfigError, match="imports takes a list of files or modules"):
        load("given.toml")


def test_imports_that_are_not_there_are_named(folder):
    (folder / "given.toml").write_text('imports = ["yours"]\n')
    with pytest.raises(
        ConfigError, match=r'asks for "yours", and there is neither a file yours\.py in its folder'
    ):
        load("given.toml")
