"""The report: every number is the results', nothing that others wrote runs, and nothing is fetched."""

import csv
import json
import math
import re
from collections import Counter
from itertools import pairwise

import html5lib
import pytest

from attnlab.evaluation.comparison import FACTS
from attnlab.studies.report.courses import MOST_POINTS, course
from attnlab.studies.report.metric_display import QUALITY
from attnlab.studies.report.sections.attention import MOST_TOKENS
from attnlab.studies.report.sections.curves import curves
from attnlab.studies.report.study_results import StudyResults
from tests.studies import results as made
from tests.studies.results import write
from tests.studies.runs import FIX, MEANING

KINDS = ["five_arms", "two_arms", "one_seed", "quick", "bare", "hostile"]
OPTIONAL = [key for key in made.five_arms() if key not in ("study", "arms", "runs", "notes", "format")]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Each kind of results with its folder, written once."""
    root = tmp_path_factory.mktemp("reports")
    found = {kind: getattr(made, kind)() for kind in KINDS}
    for kind, results in found.items():
        write(results, root / kind)
    return {kind: (results, root / kind) for kind, results in found.items()}


def page_text(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def parsed(folder):
    """The page, by a parser that refuses what is not HTML; packed plots are letters, and long."""
    text = re.sub('(type="application/gzip" id="[a-z]+">)[^<]+', r"\1", page_text(folder))
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def words(element):
    return " ".join("".join(element.itertext()).split())


def numbers(results):
    """Every number of the results, wherever it stands."""
    if isinstance(results, dict):
        return {n for value in results.values() for n in numbers(value)}
    if isinstance(results, list):
        return {n for value in results for n in numbers(value)}
    return {float(results)} if isinstance(results, int | float) else set()


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_valid_and_its_headings_and_anchors_are_in_order(reports, kind):
    page = parsed(reports[kind][1])
    levels = [int(e.tag[1]) for e in page.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = Counter(e.get("id") for e in page.iter() if e.get("id"))
    assert max(ids.values()) == 1
    links = {e.get("href") for e in page.iter("a")}
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    for element in page.iter("table"):
        rows = [sum(int(cell.get("colspan", 1)) for cell in row) for row in element.iter("tr")]
        assert len(set(rows)) == 1, f"a table with rows of {rows} cells"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fetched(reports, kind):
    text = page_text(reports[kind][1])
    page = parsed(reports[kind][1])
    for element in page.iter():
        assert element.tag not in ("link", "iframe", "object", "embed", "img", "base")
        assert not {"src", "srcset", "data", "action", "background"} & set(element.attrib)
    assert "http://" not in text and "https://" not in text
    assert "url(" not in text and "@import" not in text
    policy = next(e.get("content") for e in page.iter("meta") if e.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy


def test_what_others_wrote_is_text(reports):
    """Three scripts: plotly, its data, and the page's own. A fourth would be someone else's."""
    folder = reports["hostile"][1]
    scripts = list(parsed(folder).iter("script"))
    assert [s.get("type") for s in scripts] == ["application/gzip", "application/gzip", None]
    assert "bitten" not in "".join(filter(None, (s.text for s in scripts)))
    assert not [e for e in parsed(folder).iter() if any(key.startswith("on") for key in e.attrib)]
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "<script" not in text and "<img" not in text and not re.search(r"(?<!\\)\]\(javascript", text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_shown_is_one_of_the_results(reports, kind):
    results, folder = reports[kind]
    exact = numbers(json.loads(json.dumps(results)))
    probes = {}
    for run in results["runs"]:
        for probe in run.get("probes", []):
            probes.setdefault((run["arm"], probe["text"]), []).append(probe["loss"])
    means = {math.fsum(losses) / len(losses) for losses in probes.values()}
    shown = list(parsed(folder).iter("data"))
    assert len(shown) > 50 or kind == "bare"
    for element in shown:
        value = float(element.get("value"))
        assert value in exact or value in means, f"{words(element)} is nowhere in the results"
        assert rounds_to(value, words(element)), f"{words(element)} is shown for {value}"


def rounds_to(value, text):
    """Whether a text is this value, to the digits that it shows."""
    text = text.replace(",", "").replace("−", "-").replace("%", " %")
    if text.startswith("< "):
        return value < float(text[2:])
    if " min" in text:
        parts = re.findall(r"(\d+) (h|min|s)", text)
        seconds = sum(int(part) * {"h": 3600, "min": 60, "s": 1}[unit] for part, unit in parts)
        return abs(seconds - value) <= {"s": 0.5, "min": 30}[parts[-1][1]]
    sizes = {"million": 1e6, "billion": 1e9, "MB": 1e6, "s": 1, "": 1, "%": 0.01, "points": 0.01}
    digits, _, unit = text.partition(" ")
    places = len(digits.partition(".")[2].partition("e")[0])
    if "e" in digits:
        return math.isclose(value, float(digits), rel_tol=1e-4)
    return (
        abs(float(digits) - value / sizes[unit])
        <= (0.51 if unit in ("million", "billion") else 0.5000001) * 10.0**-places
    )


def cell(table, arm, title):
    """The cell of an arm in a column."""
    heads = [words(th) for th in next(table.iter("thead")).iter("th")]
    row = next(r for r in table.iter("tr") if words(r[0]).split(" ")[0] == arm)
    return row[heads.index(title)]


def table_with(page, title):
    return next(t for t in page.iter("table") if any(words(th) == title for th in t.iter("th")))


def test_the_table_of_arms_holds_each_arms_own_numbers(reports):
    """A number in the wrong row or column would be one of the results too."""
    results, folder = reports["five_arms"]
    page = parsed(folder)
    titles = {metric.name: metric.title for metric in QUALITY} | {
        "seconds": "training time",
        "tokens_per_second": "tokens/s",
    }
    for name, title in titles.items():
        table = table_with(page, title)
        for arm in results["arms"]:
            found = cell(table, arm["name"], title)
            estimate = arm["metrics"].get(name)
            if estimate is None:
                assert words(found) == "–"
                continue
            assert float(next(found.iter("data")).get("value")) == estimate["value"]
            low, high = words(next(found.iter("small"))).split(" to ")
            assert rounds_to(estimate["low"], low) and rounds_to(estimate["high"], high)
    assert "its 95% interval over 5 seeds" in words(page), "which is said once"


def test_what_is_invalid_is_struck_or_crossed_wherever_it_is_shown(reports):
    page = parsed(reports["five_arms"][1])
    struck = {d for s in page.iter("s") for d in s.iter("data")}
    assert not any(float(d.get("value")) < 0 for d in struck), "a stroke hides a minus"
    struck |= {d for s in page.iter("span") if s.get("class") == "crossed" for d in s.iter("data")}
    zero = next(a for a in reports["five_arms"][0]["arms"] if a["name"] == "zero")
    own = [zero["metrics"][name]["value"] for name in ("loss", "perplexity", "bits_per_byte", "seconds")]
    runs = [r["metrics"]["loss"] for r in reports["five_arms"][0]["runs"] if r["arm"] == "zero"]
    for value in [*own, *runs, -0.6061, 1.88]:
        shown = [d for d in page.iter("data") if float(d.get("value")) == value]
        assert shown and all(d in struck for d in shown), value
    sound = next(a for a in reports["five_arms"][0]["arms"] if a["name"] == "dot")["metrics"]["loss"]["value"]
    assert not any(float(d.get("value")) == sound for d in struck)
    head = words(next(page.iter("header")))
    assert "zero is invalid" in head and "dependency" in head and MEANING in head
    told = next(e for e in page.iter() if e.get("class") == "finding finding-fail")
    assert all(part in words(told) for part in (MEANING, FIX, "Logits at position 7 changed"))
    text = (reports["five_arms"][1] / "report.md").read_text(encoding="utf-8")
    assert "~~4.4" in text and "zero is invalid" in text and "✗ −0.6061" in text


def test_token_by_token_perplexity_follows_from_the_loss_where_only_that_is_given(tmp_path):
    results = made.two_arms()
    for arm in results["arms"]:
        del arm["metrics"]["token_by_token_perplexity"]
    write(results, tmp_path)
    shown = cell(
        table_with(parsed(tmp_path), "token-by-token perplexity"), "dot", "token-by-token perplexity"
    )
    expected = math.exp(results["arms"][0]["metrics"]["token_by_token_loss"]["value"])
    assert float(next(shown.iter("data")).get("value")) == expected


def test_one_seed_and_quick_are_said(reports):
    one = parsed(reports["one_seed"][1])
    assert "Seed noise is unknown" in words(next(one.iter("header")))
    assert words(one).count("One seed: intervals over seeds are unknown.") == 1
    assert "unknown" not in words(cell(table_with(one, "perplexity"), "dot", "perplexity"))
    assert "This was a quick study" in words(next(parsed(reports["quick"][1]).iter("header")))
    assert "quick study" not in words(next(parsed(reports["five_arms"][1]).iter("header")))


def test_an_arm_with_a_baseline_of_its_own_is_told_with_it(tmp_path):
    results = made.five_arms(seeds=2)
    results["study"]["against"] = {"linear": "additive"}
    for row in results["comparisons"]:
        row["baseline"] = "additive" if row["arm"] == "linear" else "dot"
    write(results, tmp_path)
    beside = [words(small) for small in parsed(tmp_path).iter("small") if small.get("class") == "beside"]
    assert "minus additive" in beside and "minus dot" in beside


def test_arms_on_different_data_do_not_stand_side_by_side(tmp_path):
    results = made.two_arms()
    for run in results["runs"]:
        if run["arm"] == "additive":
            run["fingerprints"] = {"data": "9f1c2ab34d5e6f70", "tokenizer": "another"}
    write(results, tmp_path)
    page = parsed(tmp_path)
    assert "Not all arms can be compared" in words(page)
    assert len(list(table_with(page, "perplexity").iter("tbody"))) == 2


@pytest.mark.parametrize("part", OPTIONAL)
def test_a_missing_part_leaves_its_section_out(tmp_path, part):
    results = made.five_arms(seeds=2)
    del results[part]
    write(results, tmp_path)
    section = {"comparisons": "differences", "fingerprints": None, "verdict": None}.get(part, part)
    gone = section and section not in ("versions", "machine", "date", "again")
    assert not gone or not [e for e in parsed(tmp_path).iter("h3") if e.get("id") == section]


@pytest.mark.parametrize("field", sorted(made.five_arms(1)["runs"][0].keys() - {"arm", "seed"}))
def test_no_field_of_a_run_is_required(tmp_path, field):
    results = made.five_arms(seeds=2)
    for run in results["runs"]:
        run.pop(field, None)
    write(results, tmp_path)
    parsed(tmp_path)


def test_a_run_without_a_result_shows_no_noughts(tmp_path):
    """The runner writes 0 for what it does not know of a run that never came to its end."""
    results = made.two_arms()
    results["runs"][0] |= {"status": "missing", "steps": 0, "tokens": 0, "seconds": 0, "metrics": {}}
    results["arms"][0]["reason"] = "1 of 5 runs has no result (seed 0: not begun)"
    write(results, tmp_path)
    page = parsed(tmp_path)
    rows = next(t for t in page.iter("table") if "Single runs" in words(t)).iter("tr")
    first = next(row for row in rows if words(row[0]).startswith("dot") and words(row[1]) == "0")
    assert not [d for d in first.iter("data") if float(d.get("value")) == 0]
    assert "1 of 5 runs has no result" in words(next(page.iter("header")))


def test_the_card_is_told_where_it_belongs(tmp_path):
    results = made.two_arms()
    results["study"]["card"] = (
        "Attention: a summary.\n\nSet-up: one\ntrunk.\n\nHypothesis: no\ndifference.\n\n"
        "How to read it: look at *loss* <b>first</b>.\n\nA word more."
    )
    write(results, tmp_path)
    parts = {section.get("aria-labelledby"): section for section in parsed(tmp_path).iter("section")}
    told = words(parts["what-was-compared"])
    assert "One trunk." in told and "A word more." in told
    assert "a summary" not in words(parts["what-was-compared"])
    assert "No difference." in words(parts["hypothesis"])
    assert "Look at loss <b>first</b>." in words(parts["what-it-means"])
    assert [words(e) for e in parts["what-it-means"].iter("em")] == ["loss"]


@pytest.mark.parametrize("changed", ["overrides", "quick"])
def test_a_set_up_that_is_not_what_ran_is_not_told(tmp_path, changed):
    results = made.two_arms()
    results["study"]["card"] = "Attention: a summary.\n\nSet-up: one\ntrunk of docstrings.\n\nA word more."
    overrides = {"data.corpus": "mine.txt", "training.budget.tokens": 500_000}
    results["study"] |= {"quick": True} if changed == "quick" else {"overrides": overrides}
    write(results, tmp_path)
    parts = {section.get("aria-labelledby"): section for section in parsed(tmp_path).iter("section")}
    told = words(parts["what-was-compared"])
    if changed == "overrides":
        assert "trunk of docstrings" not in told and "A word more." not in told
        assert "describes the study as it was written; --set" in told
        assert "data.corpus = mine.txt, training.budget.tokens = 500,000" in told
    else:
        assert "As it was written, for its whole budget; what ran here is told below. One trunk" in told


def test_what_an_arm_that_leaks_loses_without_the_leak_is_shown_unstruck(tmp_path):
    results = made.five_arms()
    row = next(row for row in results["comparisons"] if row["verdict"] == "invalid")
    row["without_leak"] = {"difference": 0.8765, "low": 0.8012, "high": 0.9518, "seeds": 5}
    write(results, tmp_path)
    page = parsed(tmp_path)
    struck = [d for s in page.iter("s") for d in s.iter("data")]
    shown = [d for d in page.iter("data") if d.get("value") == "0.8765"]
    assert shown and words(shown[0]).startswith("+0.8") and not [d for d in shown if d in struck]
    rows = [r for r in parsed(tmp_path).iter("tr") if "0.877" in words(r) or "0.88" in words(r)]
    assert all(words(cell) in ("unknown", "–") for r in rows for cell in list(r)[3:6]), (
        "no p of another metric"
    )


def test_an_inconclusive_comparison_says_what_it_may_have_missed(tmp_path):
    results = made.two_arms()
    facts = {"difference": -0.02, "low": -0.06, "high": 0.02, "p": 0.2, "seeds": 3}
    row = made.compared("additive", "loss", "inconclusive", **facts)
    results["comparisons"] = [row]
    results["configs"] = {"base": {"data": {"corpus": {"kind": "files", "path": "notes.txt"}}}}
    said = [words(item) for item in section(tmp_path, results, "limits")]
    least = f"{row['smallest']:.3f}"  # in the digits that the difference is shown in
    assert any("With 3 seeds" in one and f"missed (80% power): {least} (additive)" in one for one in said)
    assert any("on notes.txt" in one for one in said)
    facts |= {"high": -0.01, "p": 0.001}
    results["comparisons"] = [made.compared("additive", "loss", "better", **facts)]
    assert not any("missed" in words(item) for item in section(tmp_path, results, "limits"))


def section(folder, results, name):
    """The items of a section's list."""
    write(results, folder)
    sections = {part.get("aria-labelledby"): part for part in parsed(folder).iter("section")}
    return list(sections[name].iter("li"))


def test_a_curve_that_knows_only_its_steps_stays_by_step():
    results = made.two_arms()
    for run in results["runs"]:
        run["extra_curves"] = {"entropy": {"step": [1, 2], "value": [3.0, 2.0]}}
    (figure,) = curves(StudyResults(made.outcome(results)))
    titles = {key: chart.x.title for key, (chart,) in figure.views.items()}
    assert [titles[f"2,{axis}"] for axis in range(3)] == ["step", "step", "step"]
    assert [titles[f"0,{axis}"] for axis in range(3)] == ["step", "tokens", "seconds"]


def test_what_is_required_is_named(tmp_path):
    with pytest.raises(ValueError, match="runs is missing"):
        write({"study": {}, "arms": []}, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_csv_gives_the_numbers_back_to_the_last_digit(reports, kind):
    results, folder = reports[kind]
    with (folder / "runs.csv").open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    assert len(set(reader.fieldnames)) == len(reader.fieldnames)
    assert len(rows) == len(results["runs"])
    for row in rows:
        run = next(r for r in results["runs"] if (r["arm"], str(r["seed"])) == (row["arm"], row["seed"]))
        for name, value in run.get("metrics", {}).items():
            assert float(row[name]) == value
        judged = run.get("status") not in ("failed", "missing")  # there is nothing to be sound otherwise
        assert row["sound"] == (str(run.get("status") != "invalid") if judged else "")
    with (folder / "comparisons.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, comparison in zip(rows, results.get("comparisons", []), strict=True):
        for name, value in comparison.items():
            if name not in row:
                assert name in FACTS or name in ("doubts", "inequalities", "spread_freedom")
                continue
            known = value is not None and not (isinstance(value, float) and math.isnan(value))
            assert (type(value)(row[name]) == value) if known else row[name] in ("", "nan")


def test_a_column_of_runs_is_there_once(tmp_path):
    results = made.two_arms()
    results["runs"][0]["metrics"]["seconds"] = 12.5  # which is a fact of every run, too
    write(results, tmp_path)
    header = (tmp_path / "runs.csv").read_text().partition("\n")[0].split(",")
    assert header.count("seconds") == 1 and len(set(header)) == len(header)


def test_a_mean_is_drawn_only_where_every_seed_has_a_point():
    one = {"step": [1, 2, 3], "tokens": [10, 20, 30], "seconds": [1.0, 2.0, 3.0], "loss": [5.0, 4.0, 3.0]}
    two = {"step": [1, 2], "tokens": [10, 20], "seconds": [2.0, 3.0], "loss": [6.0, 5.0]}
    drawn = course([one, two])
    assert drawn.mean["value"] == [5.5, 4.5] and drawn.mean["seconds"] == [1.5, 2.5]
    assert drawn.mean["low"] == [5.0, 4.0] and drawn.mean["high"] == [6.0, 5.0]
    (rest,) = drawn.singles  # from the last point that both have
    assert rest["step"] == [2, 3] and rest["value"] == [4.0, 3.0]


def test_seeds_that_end_apart_are_not_joined_into_one_line():
    """A mean over those that are left would rise and fall with who they are, and read as learning."""
    ends, every = (51, 52, 55, 56, 60), 5
    runs = [
        {
            "step": [*range(every, end, every), end],
            "loss": [5.0 + seed] * len([*range(every, end, every), end]),
        }
        for seed, end in enumerate(ends)
    ]
    drawn = course(runs)
    assert drawn.mean["step"] == [*range(every, 51, every)]
    assert set(drawn.mean["value"]) == {7.0}, "the mean of all five, wherever it is drawn"
    assert sorted(part["step"][-1] for part in drawn.singles) == [*ends]
    for part in drawn.singles:  # each is one seed's own numbers
        assert len(set(part["value"])) == 1 and part["step"][0] == 50


def test_seeds_that_end_at_nearly_the_same_step_end_in_one_point():
    one = {"step": [200, 400, 564], "loss": [5.0, 4.0, 3.0]}
    two = {"step": [200, 400, 580], "loss": [6.0, 5.0, 4.0]}
    curve = course([one, two]).mean
    assert curve["step"] == [200, 400, 572] and curve["value"] == [5.5, 4.5, 3.5] and curve["n"] == [2, 2, 2]
    short = {"step": [200, 400], "loss": [6.0, 5.0]}  # which stopped for another reason
    assert course([one, short]).mean["n"] == [2, 2]


def test_long_curves_are_averaged_not_thinned():
    steps = list(range(10 * MOST_POINTS))
    curve = course([{"step": steps, "loss": [s % 2 for s in steps]}]).mean
    assert len(curve["value"]) == MOST_POINTS
    assert set(curve["value"]) == {0.5}


def test_a_long_sentence_shows_its_first_tokens_and_says_so(reports):
    text = words(parsed(reports["hostile"][1]))
    assert f"The first {MOST_TOKENS} of 305 tokens are shown." in text
    assert (reports["hostile"][1] / "report.html").stat().st_size < 4e6


def test_weights_that_are_no_numbers_leave_gaps(tmp_path):
    """Of a model that diverged: its map ended the report of all arms."""
    results = made.five_arms()
    maps = results["attention"]["arms"]
    for layer in next(iter(maps.values())):
        for head in layer:
            head[0][0] = None
    write(results, tmp_path)
    assert "Attention weights of queries on keys" in (tmp_path / "report.html").read_text()


def test_a_check_that_looks_twice_counts_a_seed_once(tmp_path):
    """Before training and after it: two findings a seed, in other numbers, of one meaning."""
    results = made.five_arms(seeds=2)
    for run in results["runs"]:
        again = [f | {"when": "before", "found": f"{f['found']} Again."} for f in run["checks"]]
        run["checks"] = run["checks"] + again
    write(results, tmp_path)
    page = parsed(tmp_path)
    assert words(cell(table_with(page, "check"), "dependency", "zero invalid")) == "✗fail2 of 2 seeds"
    failed = [e for e in page.iter() if e.get("class") == "finding finding-fail"]
    assert len(failed) == 1 and "zero (2 seeds)" in words(failed[0]) and "4 such findings" in words(failed[0])


def cut_short(share, **counts):
    return {"texts_cut_share": share, "tokens_cut_share": share, "longest": 300} | counts


def test_text_that_was_cut_off_is_told_for_arms_that_lost_the_same_and_for_those_that_did_not(tmp_path):
    results = made.two_arms()
    little = cut_short(0.013, texts=1000, texts_cut=13, tokens=20_000, tokens_cut=260)
    much = cut_short(0.21, texts=1000, texts_cut=210, tokens=20_000, tokens_cut=4200)
    arms = [arm["name"] for arm in results["arms"]]
    for run in results["runs"]:
        run["truncation"] = {"train": little, "dev": little if run["arm"] == arms[0] else much}
    write(results, tmp_path)
    rows = [line for line in (tmp_path / "report.md").read_text().splitlines() if "of 20,000" in line]
    assert len(rows) == 3
    assert rows[0].startswith("| train | all |") and "260 of 20,000 (1.3%) |" in rows[0]
    assert [arms[0] in row for row in rows[1:]] == ["260 of" in row for row in rows[1:]] != [True, True]
    assert ["4,200 of 20,000 (21.0%) ! |" in row for row in rows[1:]] == [arms[1] in row for row in rows[1:]]
    assert "4,200 of 20,000 (21.0%) !" in words(parsed(tmp_path))
