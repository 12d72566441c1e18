"""Reports of real runs: each number and sentence is that of the record of the run that it speaks of."""

import csv
import json
import math
import random
import re

import pytest

from attnlab.studies.builtin import STUDIES
from attnlab.studies.runner import RunnableStudy
from attnlab.studies.study_files import adjusted, load_study
from tests.studies.here import here
from tests.studies.test_report import numbers, parsed, rounds_to, words
from tests.training.small_run import corpus
from tests.unchecked import checked_by

TOPICS = {
    "food": "bread soup salt oven taste",
    "sea": "wave boat sand sail tide",
    "sky": "star moon wind wing",
}
FAST = ("masking", "transfer")
"""Run in every suite; all others take a minute or more together."""
QUOTED = {"majority": "accuracy", "bag_of_words": "model", "learned": "loss"}
"""What checks quote of an evaluation."""
TINY = {"training.budget.steps": 4, "training.evaluate_every": 2}


def labelled(folder):
    """A table of a person's own, as the study's card offers it."""
    pick, file = random.Random(0), folder / "mine.csv"
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["review", "stars"])
        for _ in range(260):
            topic = pick.choice([*TOPICS])
            rows.writerow([" ".join(pick.choices(TOPICS[topic].split(), k=7)), topic])
    return file


def tiny(name, folder):
    """A built-in study of a few steps; the two of every suite on text of a person's own."""
    study, settings = load_study(name), dict(TINY)
    settings |= {f"starts.{start}.{key}": value for start in study.starts for key, value in TINY.items()}
    lines = {"data.corpus": str(corpus(folder)), "data.corpus.unit": "line"}
    if name == "masking":
        settings |= lines
    if name == "transfer":
        columns = {"data.corpus.text": "review", "data.corpus.label": "stars"}
        settings = {"data.corpus": str(labelled(folder)), **columns}
        settings |= {"arms.*.training.budget.epochs": 2, "arms.*.training.budget.tokens": 2000}
        settings |= {f"starts.pretrained.{key}": value for key, value in TINY.items()}
        settings |= {f"starts.pretrained.{key}": value for key, value in lines.items()}
    if name == "learning-rates":  # whose arms have budgets of their own
        settings |= {f"arms.*.{key}": settings.pop(key) for key in TINY if "budget" in key}
    only = ["pretrained-100"] if name == "transfer" else []
    return adjusted(study, quick=True, seeds=2, set=settings, only=only)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in STUDIES if name not in FAST]


@pytest.fixture(scope="module", params=[*FAST, *OTHERS])
def ended(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    checks = ("dependency", "honesty", "majority", "collapse", "bag_of_words", "learned")
    with here(), checked_by(*checks):
        return RunnableStudy.of(tiny(request.param, folder)).run(folder / "study", jobs=1)


def records(ended):
    """What each run's own folder says of it: its config, its events and its findings."""
    for run in ended.results["runs"]:
        folder = ended.folder / run["folder"]
        config = json.loads((folder / "run.json").read_text())["config"]
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        yield run, config, events, json.loads((folder / "checks.json").read_text())["findings"]


def test_every_number_of_the_page_is_in_the_records(ended):
    known = numbers(ended.results)
    shown = list(parsed(ended.folder).iter("data"))
    assert len(shown) > 20
    over_seeds = {}
    for run in ended.results["runs"]:
        for probe in run.get("probes", []):
            over_seeds.setdefault((run["arm"], probe["text"]), []).append(probe["loss"])
        for bucket in run.get("by_length", []):
            value = next(iter(bucket["scores"].values()))["value"]
            over_seeds.setdefault((run["arm"], bucket["least"]), []).append(value)
    means = {math.fsum(values) / len(values) for values in over_seeds.values()}
    for element in shown:
        value = float(element.get("value"))
        assert value in known | means, f"{words(element)} is nowhere in the results"
        assert rounds_to(value, words(element)), f"{words(element)} is shown for {value}"


def test_a_run_of_the_results_is_that_of_its_own_folder(ended):
    for run, config, events, _ in records(ended):
        steps = [one for one in events if one["event"] == "stepped"]
        assert run["steps"] == steps[-1]["step"] == len(steps)
        assert run["tokens"] == sum(one["tokens"] for one in steps)
        scored = {one["step"]: one["loss"] for one in events if one["event"] == "evaluated"}
        assert dict(zip(run["dev_curve"]["step"], run["dev_curve"]["loss"], strict=True)) == scored
        arm = next(arm for arm in ended.results["arms"] if arm["name"] == run["arm"])
        limits = {name: limit for name, limit in config["training"]["budget"].items() if limit != "unlimited"}
        assert arm["budget"] == limits


def test_what_is_found_at_a_step_is_what_was_scored_at_that_step(ended):
    compared = 0
    for _, _, events, findings in records(ended):
        scored = {one["step"]: one for one in events if one["event"] == "evaluated"}
        for finding in findings:
            quoted = QUOTED.get(finding["check"])
            if finding["step"] in scored and quoted in finding["values"] and finding["when"] != "before":
                event = scored[finding["step"]]
                own = event["loss"] if quoted == "loss" else event["scores"]["accuracy"]
                assert finding["values"][quoted] == pytest.approx(own, abs=1e-6), finding
                compared += 1
    ranks = ended.results["study"]["metric"] == "reciprocal_rank"  # of which no check quotes a score
    assert compared >= 2 or ranks


def test_the_set_up_that_is_told_is_that_of_the_runs(ended):
    sections = {one.get("aria-labelledby"): one for one in parsed(ended.folder).iter("section")}
    page = words(sections["what-was-compared"])
    for _, config, _, _ in records(ended):
        used = config["data"]["corpus"]
        assert str(used.get("path") or used["kind"]) in page and config["task"]["kind"] in page
        limits = {name: n for name, n in config["training"]["budget"].items() if n != "unlimited"}
        assert all(f"{n:,.0f} {name}" in page for name, n in limits.items()), (limits, page)
    card = load_study(ended.outcome.study.name).card
    assert (
        " ".join(card.split("Set-up:")[1].split("\n\n")[0].split())[2:60] not in page
    )  # without its capital


def test_one_leak_has_one_number(ended):
    leaks = {arm["name"]: arm["metrics"].get("leak") for arm in ended.results["arms"]}
    text = (ended.folder / "report.md").read_text()
    told = re.findall(r"parallel loss is ([0-9.e-]+) nats per token too", text)
    invalid = [arm["name"] for arm in ended.results["arms"] if "honesty" in arm["unsound"]]
    assert bool(told) == bool(invalid)
    if invalid:
        assert {*told} == {f"{abs(leaks[invalid[0]]['value']):.3g}"} and len(told) > 2


def test_a_loss_that_is_told_first_is_the_mean_of_its_arm(ended):
    text = (ended.folder / "report.md").read_text()
    told = dict(re.findall(r"the loss of ([\w-]+), ([0-9.]+), is not below", text))
    losses = {arm["name"]: arm["metrics"].get("loss", {}).get("value") for arm in ended.results["arms"]}
    assert told or ended.outcome.study.metric != "loss"
    assert all(float(loss) == pytest.approx(losses[arm], abs=6e-4) for arm, loss in told.items())
