"""The names of `import attnlab as lab`: real functions, equal to the tables, without torch."""

import ast
import inspect
import subprocess
import sys

import pytest

import attnlab as lab
from attnlab.config.registry import table
from attnlab.config.values import ConfigError
from tests import choices_source
from tests.docs import user_script


def test_choices_are_those_of_the_tables():
    """Where a table or a constructor has changed: python -m tests.choices_source."""
    assert ast.dump(ast.parse(choices_source.FILE.read_text())) == ast.dump(
        ast.parse(choices_source.source())
    )


def test_every_choice_is_a_function_that_gives_its_variant_with_its_defaults():
    named = choices_source.named_choices()
    assert len(named) > 80 and not {"Window", "None", "Any", "All"} & named.keys()
    for name, (of, kind) in named.items():
        function = getattr(lab, name)
        assert inspect.isfunction(function) and name in lab.__all__
        required = [option for option in table(of).options(kind).values() if option.required]
        if not required:
            assert function() == table(of).resolve(kind), name


def test_options_are_checked_when_a_choice_is_made():
    with pytest.raises(ConfigError, match="groups is 0; it must be at least 1"):
        lab.Group(groups=0)
    with pytest.raises(TypeError, match="group"):
        lab.Group(group=4)


def test_there_are_no_names_made_up_on_the_way():
    assert not hasattr(lab, "__getattr__")
    with pytest.raises(AttributeError):
        lab.Window  # noqa: B018  # in two tables
    assert {name for name in lab.__all__ if not hasattr(lab, name)} == set()


def test_importing_it_imports_no_torch():
    script = "import sys, attnlab; print([m for m in ('torch', 'numpy', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_users_script_runs():
    assert user_script.part_of_each_kind() > 0
    with pytest.raises(TypeError):
        user_script.mistakes(None)


def test_the_package_says_that_it_is_typed():
    """hatch packs what is in the folder; mypy reads it for people who install the package."""
    assert (choices_source.FILE.parent / "py.typed").is_file()
