"""Specs: what a person may write, what is refused and in which words, and what the same study is."""

import json
from dataclasses import replace

import pytest

from attnlab.config.values import ConfigError
from attnlab.studies.builtin import STUDIES, builtin
from attnlab.studies.matching import parameters
from attnlab.studies.outcome import NoteKind
from attnlab.studies.resolved import from_record, resolve, to_record
from attnlab.studies.study_files import adjusted, load_study, study_of
from tests.own_code import new_session
from tests.studies.small_study import study

GOOD = """
question = "Is linear attention as good?"
base = "mini-gpt"
baseline = "dot"
seeds = 3
budget = { steps = 40 }

[set]
model.width = 32

[arms.dot]

[arms.linear]
model.attention = "linear"
training.optimizer.learning_rate = 1e-3
"""


def written(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return file


def test_a_toml_file_becomes_complete_configs(tmp_path):
    resolved = resolve(load_study(written(tmp_path, GOOD)))
    dot, linear = resolved.configs["dot"], resolved.configs["linear"]
    assert resolved.study.name == "mine" and resolved.study.all_seeds == (0, 1, 2)
    assert dot.model.width == linear.model.width == 32 and dot.training.budget.limits == {"steps": 40}
    assert (dot.model.attention.kind, linear.model.attention.kind) == ("dot", "linear")
    assert linear.training.optimizer.options["learning_rate"] == 1e-3
    assert dot.training.optimizer.options["learning_rate"] == 5e-4  # mini-gpt's own
    assert linear.training.optimizer.options["weight_decay"] == dot.training.optimizer.options["weight_decay"]


def test_a_python_file_gives_its_study_and_its_card(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        '"""Mine: a card."""\n'
        "from attnlab.studies.spec import Study\n"
        'ARMS = {"a": {}, "b": {"model.heads": 2}}\n'
        'def study():\n    return Study(name="mine", question="Why?", arms=ARMS)\n'
    )
    with new_session():
        found = load_study(file)
    assert found.card == "Mine: a card." and found.baseline == "a" and found.arms["b"] == {"model.heads": 2}
    file.write_text("study = dict")
    with new_session(), pytest.raises(ConfigError, match="must have a function `study`"):
        load_study(file)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("question", "qestion", r'there is no "qestion". Did you mean "question"\?'),
        ('question = "Is linear attention as good?"', "", "has no `question`; say in a sentence"),
        ('question = "Is linear attention as good?"', 'question = " "', "needs a question"),
        ('base = "mini-gpt"', 'base = "mini-gtp"', r'Did you mean "mini-gpt"\?'),
        ('baseline = "dot"', 'baseline = "dto"', r'baseline: there is no "dto". Did you mean "dot"\?'),
        ("seeds = 3", "seeds = 0", "seeds are \\[\\]; give at least one, each once"),
        ("seeds = 3", "seeds = 10000000000", "A study has at most 100,000 seeds; give fewer"),
        ("seeds = 3", "seeds = [1, 1]", "seeds are \\[1, 1\\]; give at least one, each once"),
        ("seeds = 3", 'seeds = "five"', "seeds takes a whole number or a list of a whole number"),
        ("steps = 40", "stepps = 40", r'budget: there is no "stepps". Did you mean "steps"\?'),
        ("steps = 40", "steps = -1", "budget.steps is -1; it must be at least 1"),
        ("model.width = 32", "model.widht = 32", r'Arm "dot" of mine: .*Did you mean "width"\?'),
        ("model.width = 32", "model.width = 33", "not divisible by model.heads 4"),
        ('attention = "linear"', 'attention = "liner"', r'Arm "linear" of mine: .*Did you mean "linear"\?'),
        ("training.optimizer.learning_rate = 1e-3", "seed = 3", 'Arm "linear" sets `seed`'),
        ("[arms.linear]", '[arms."lin/ear"]', 'An arm\'s name is letters, digits, .* not "lin/ear"'),
        ("seeds = 3", 'match = "parmeters"', r'match takes .*Did you mean "parameters"\?'),
        ("seeds = 3", 'metric = "los"', r'metric: there is no "los". Did you mean "loss"\?'),
        ("seeds = 3", "learning_rates = [1e-3, 0.0]", "a learning rate must be above 0"),
        (
            "seeds = 3",
            'extras = "nowhere:Thing"',
            "extras asks for .nowhere., and there is neither a file nowhere.py",
        ),
        ("seeds = 3", "allow = { dto = ['dependency'] }", r'allow: there is no "dto". Did you mean "dot"\?'),
        ("seeds = 3", "allow = { dot = ['dependancy'] }", r'Did you mean "dependency"\?'),
        ("seeds = 3", "quick = { sedes = 1 }", r'quick: there is no "sedes". Did you mean "seeds"\?'),
        ("[arms.dot]", "[arms]\ndot = 3", "arms.dot is a table, not 3"),
    ],
)
def test_a_bad_spec_is_answered_with_a_sentence(tmp_path, before, after, sentence):
    text = GOOD.replace(before, after, 1)
    assert text != GOOD
    with pytest.raises(ConfigError, match=sentence):
        resolve(load_study(written(tmp_path, text)))


def test_an_unknown_study_names_the_nearest():
    with pytest.raises(ConfigError, match=r'there is no "maskin". Did you mean "masking"\?'):
        load_study("maskin")


def test_set_only_quick_and_seeds(tmp_path):
    given = study(tmp_path, arms={"a": {}, "b": {"model.heads": 1}, "c": {"model.attention": "linear"}})
    changed = adjusted(given, quick=True, set=["model.width=32"], only=["c"])
    assert list(changed.arms) == ["a", "c"] and changed.is_quick and changed.all_seeds == (0,)
    assert changed.overrides == {"model.width": 32} and from_record(to_record(resolve(changed))) == changed
    assert resolve(changed).identity == resolve(replace(changed, overrides={})).identity
    config = changed.config("c")
    assert config.model.width == 32 and config.training.budget.limits == {"steps": 2}
    assert adjusted(given, seeds=4).all_seeds == (0, 1, 2, 3)
    with pytest.raises(ConfigError, match=r'--only: there is no "d"'):
        adjusted(given, only=["d"])
    with pytest.raises(ConfigError, match="every arm of small sets it itself"):
        adjusted(
            replace(given, arms={"a": {"model.heads": 1}, "b": {"model.heads": 2}}), set={"model.heads": 4}
        )
    with pytest.raises(ConfigError, match="give their number with --seeds"):
        adjusted(given, set=["seed=3"])


def test_quick_takes_a_tenth_unless_the_study_says_otherwise():
    settings = {"question": "Why?", "arms": {"a": {}}, "budget": {"tokens": 5000}}
    assert study_of(settings, name="x").quickly().budget == {"tokens": 500}


def test_a_study_keeps_its_identity_as_it_grows_and_is_another_on_another_base(tmp_path):
    first = resolve(study(tmp_path))
    for grown in ({"seeds": 5}, {"budget": {"steps": 9}}, {"metric": "bits_per_byte"}, {"arms": {"dot": {}}}):
        assert resolve(study(tmp_path, **grown)).identity == first.identity
    others = {"set": {"model.width": 32}}, {"probes": ("another",)}, {"learning_rates": (1e-3,)}
    for other in ({"name": "other"}, {"match": "parameters"}, {"is_quick": True}, *others):
        assert resolve(study(tmp_path, **other)).identity != first.identity
    again = from_record(json.loads(json.dumps(to_record(first))))
    assert resolve(again).identity == first.identity and again == study(tmp_path)


def test_matching_hits_the_baselines_parameters(tmp_path):
    arms = {
        "base": {},
        "shared": {"model.projections": "shared_qkv"},
        "additive": {"model.attention": "additive"},
        "gated": {"model.feedforward": "swiglu(expand=4.0)"},
        "deep": {"model.layers": 9},
        "narrow": {"model.width": 12},
    }
    base = {"model": {"vocabulary": 2000, "width": 64, "layers": 3, "heads": 2}}
    given = study(
        tmp_path, base=base, arms={n: a for n, a in arms.items() if n != "narrow"}, match="parameters"
    )
    resolved = resolve(given)
    target = parameters(resolved.configs["base"].model)
    for arm, config in resolved.configs.items():
        assert abs(parameters(config.model) / target - 1) < 0.01, arm
        assert config.model.layers == given.config(arm).model.layers
    assert resolved.configs["deep"].model.width < 64  # its feed-forward alone would have to vanish
    assert resolved.configs["shared"].model.width == 64
    assert [str(note).split()[0] for note in resolved.notes] == ["shared", "additive", "gated", "deep"]
    with pytest.raises(ConfigError, match=r'Arm "narrow" has .* parameters, the baseline'):
        resolve(replace(given, arms=arms))


def test_a_metric_that_the_task_does_not_give_is_refused_before_any_run(tmp_path):
    with pytest.raises(
        ConfigError, match=r'metric "accuracy" is made of label and probabilities, which "causal"'
    ):
        resolve(study(tmp_path, metric="accuracy"))


def test_equal_arms_are_told(tmp_path):
    notes = resolve(study(tmp_path, arms={"a": {}, "b": {"model.masking": "-inf"}})).notes
    assert [*map(str, notes)] == ["Arms a and b have the same config."]


@pytest.mark.parametrize("name", STUDIES)
def test_every_builtin_can_be_trained_and_has_a_card(name):
    found = builtin(name)
    resolved, quick = resolve(found), resolve(found.quickly())
    notes = [note for note in resolved.notes if note.kind != NoteKind.RESIZED]  # where arms are matched
    assert len(resolved.configs) > 1 and not notes
    for part in ("Set-up:", "Hypothesis:", "How to read it:", "Time:"):
        assert part in found.card
    assert found.hypothesis and len(found.all_seeds) == 5
    limits = quick.base.training.budget.limits
    assert limits.keys() == {"tokens"} and quick.study.is_quick
    assert all("tokens" in config.training.budget.limits for config in quick.configs.values())


def test_a_study_of_before_is_read_in_the_names_of_today(tmp_path):
    """Its settings were called otherwise, and its report's other measures were a field of it."""
    changes = {"training.optimizer.learning_rate": 1e-2, "data.batching": {"kind": "padded", "batch_size": 4}}
    asked = study(tmp_path, arms={"base": {}, "arm": changes}, learning_rates=(1e-3,))
    asked.base["training"]["optimizer"] = {"kind": "adamw", "learning_rate": 2e-3}
    record = json.loads(json.dumps(to_record(resolve(asked))))
    held = record["study"]
    held |= {"metrics": ["loss"], "rates": held.pop("learning_rates")}
    held["arms"]["arm"] = {
        "training.optimizer.rate": 1e-2,
        "data.batching": {"kind": "padded", "rows": 4},
    }
    held["base"]["training"]["optimizer"] = {"kind": "adamw", "rate": 2e-3}
    held["base"]["objective"] = held["base"].pop("task", "causal")
    found = from_record(record)
    assert found.learning_rates == (1e-3,) and dict(found.arms["arm"]) == changes
    assert resolve(found).identity == resolve(asked).identity


@pytest.mark.parametrize("seeds", [0, 1.5, "3", True])
def test_seeds_are_a_whole_number(seeds):
    with pytest.raises(ConfigError, match=r"--seeds is .*; it must be a whole number of at least 1"):
        adjusted(load_study("masking"), seeds=seeds)
