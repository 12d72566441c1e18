"""Several methods of adapting one model: one table, and one recommendation that follows from the numbers."""

from dataclasses import replace

import pytest

import attnlab as lab
from attnlab.config.files import to_json
from attnlab.config.values import ConfigError
from attnlab.metrics.metric import Estimate
from attnlab.studies.methods import Ground, methods_of, methods_study, recommendation
from attnlab.studies.outcome import StudyFacts, StudyOutcome
from attnlab.studies.wording import recommendation_sentence
from tests.session.adapted import asked
from tests.session.commands import answer, command
from tests.studies.here import here
from tests.studies.records import arm, comparison

COLUMNS = {"text": "body", "label": "who"}


def outcome_of(verdicts, *, costs=None, values=None):
    """A study of full and others by accuracy: the verdict, seconds and mean of each."""
    names = ["full", *verdicts]
    arms = [
        arm(
            name,
            "invalid" if verdicts.get(name) == "invalid" else "finished",
            tuned_parameters=1000 if name == "full" else 10,
            scores={
                "accuracy": Estimate((values or {}).get(name, 0.8), 0.7, 0.9, 3),
                "seconds": Estimate((costs or {}).get(name, 10.0), 9.0, 11.0, 3),
            },
        )
        for name in names
    ]
    spread = {"better": (0.02, 0.06), "worse": (-0.06, -0.02)}
    compared = [
        replace(
            comparison(name, "full", "inconclusive", metric="accuracy", low=low, high=high),
            **{"lower_is_better": False, "p_corrected": 0.001 if verdict in spread else 0.5}
            | {"p_same": 0.001 if verdict == "no difference" else 0.5},
        )
        for name, verdict in verdicts.items()
        for low, high in [spread.get(verdict, (-0.01, 0.01))]
        if verdict != "invalid"
    ]
    facts = StudyFacts(baseline="full", metric="accuracy", seeds=(0, 1, 2))
    return StudyOutcome(study=facts, arms=tuple(arms), comparisons=tuple(compared))


@pytest.mark.parametrize(
    ("verdicts", "costs", "values", "ground", "method"),
    [
        ({"lora": "better", "head": "worse"}, {}, {}, Ground.BETTER, "lora"),
        (
            {"lora": "no difference", "head": "no difference"},
            {"lora": 6, "head": 2},
            {},
            Ground.AS_GOOD,
            "head",
        ),
        ({"lora": "no difference", "head": "worse"}, {"lora": 12, "head": 2}, {}, Ground.HIGHEST, "full"),
        ({"lora": "worse", "head": "worse"}, {"head": 1}, {}, Ground.BEST, "full"),
        ({"lora": "inconclusive"}, {"lora": 1}, {"lora": 0.81}, Ground.HIGHEST, "lora"),
        ({"lora": "inconclusive"}, {"lora": 1}, {"lora": 0.79}, Ground.HIGHEST, "full"),
        ({"lora": "invalid"}, {}, {"lora": 0.99}, Ground.HIGHEST, "full"),
    ],
)
def test_the_recommendation_follows_from_the_comparisons(verdicts, costs, values, ground, method):
    """A cheaper method only where it is shown to be no worse, a better one whatever it costs, and never one
    whose runs failed a check."""
    chosen = recommendation(outcome_of(verdicts, costs=costs, values={"full": 0.8} | values))
    assert (chosen.ground, chosen.method) == (ground, method)
    said = recommendation_sentence(chosen.as_json())
    assert said.startswith("Recommended") and method in said
    if ground is Ground.AS_GOOD:
        assert "with 1% of its tuned parameters and 20% of its time" in said
    if ground is Ground.BETTER:
        assert "+4.0 points (+2.0 to +6.0)" in said.replace("\N{NO-BREAK SPACE}", " ")


def test_nothing_is_recommended_where_nothing_was_learned():
    nothing = outcome_of({"lora": "inconclusive"})
    invalid = replace(nothing, arms=tuple(replace(one, scores={}) for one in nothing.arms))
    chosen = recommendation(invalid)
    assert chosen.ground is Ground.NONE and not chosen.method
    assert "No method can be recommended" in recommendation_sentence(chosen.as_json())


def test_each_method_has_the_config_that_adapt_gives_it(home):
    """Its own rate, epochs and length; what a person sets holds for all."""
    chosen = ["full", "lora(rank=2)", "prompt(tokens=4)", "head"]
    given = {"reading": COLUMNS, "set": ["data.dev_share=0.2"]}
    study = methods_study(home / "bert", chosen, data=home / "reviews.csv", **given)
    assert study.baseline == "full" and study.metric == "accuracy"
    for name, method in zip(study.arms, chosen, strict=True):
        alone = asked(home, adapter=method, set=["data.dev_share=0.2"])
        assert to_json(study.config(name)) == to_json(alone)
    assert methods_of("full,lora(rank=2, alpha=4),head") == ["full", "lora(rank=2, alpha=4)", "head"]
    with pytest.raises(ConfigError, match="more than once"):
        methods_study(home / "bert", ["lora", "lora(rank=2)"], data=home / "reviews.csv", **given)


def test_the_command_gives_one_table_and_one_recommendation(home, tmp_path, unchecked):
    table = ["--data", home / "reviews.csv", "--text", "body", "--label", "who", "--out", tmp_path / "study"]
    short = ["--set", "training.budget.steps=4", "--seeds", "2", "--adapter", "head,lora(rank=2)"]
    with here():
        ended = command("adapt", home / "bert", *table, *short)
        again = answer("adapt", home / "bert", *table, *short, "--resume")
    said = " ".join(ended.output.split())
    assert "method accuracy tuned training against head" in said and "Means over 2 seeds" in said
    assert again["recommendation"]["method"] in ("head", "lora", "") and again["recommendation"]["ground"]
    by_name = {one["name"]: one for one in again["arms"]}
    assert by_name["head"]["tuned_parameters"] < by_name["lora"]["tuned_parameters"]
    method = again["recommendation"]["method"]
    place = f"A run of {method}: {tmp_path / 'study' / 'runs' / method}"
    assert not method or "".join(place.split()) in "".join(ended.output.split())


def test_what_is_of_one_run_is_refused_for_several(home):
    table = ["--data", home / "reviews.csv", "--text", "body", "--label", "who"]
    refused = command("adapt", home / "bert", *table, "--adapter", "full,head", "--rates", "usual")
    assert "--rates is of one run" in str(refused.exception)
    refused = command("adapt", home / "bert", *table, "--seeds", "2")
    assert "--seeds is for several methods" in str(refused.exception)


def test_from_python(home, tmp_path, unchecked):
    with here():
        ended = lab.compare_adapters(
            home / "bert",
            ["head", lab.Lora(rank=2)],
            data=home / "reviews.csv",
            seeds=1,
            set={"training.budget.steps": 2},
            out=tmp_path / "study",
            progress=False,
            **COLUMNS,
        )
    assert [one.name for one in ended.outcome.arms] == ["head", "lora"] and not ended.failed
    assert ended.outcome.extra["recommendation"]["ground"]
