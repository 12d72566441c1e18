"""Vectors of pairs: losses written out, ranks among all of a split, and a run that learns to find."""

import json
import math

import numpy as np
import pytest
import torch
from scipy import stats

import attnlab as lab
from attnlab.config.values import ConfigError
from attnlab.data.labels import Labels
from attnlab.session.trained import Trained
from attnlab.studies.resolved import resolve
from attnlab.studies.study_files import load_study
from attnlab.tasks import TASKS
from attnlab.tasks.similarity import keys_of
from tests.session.commands import answer, command
from tests.tasks.examples import SIZE, batch, text, vocabulary
from tests.training.small_run import config, for_task, merged, paired, train

ROWS = [text(length, seed=length) for length in (5, 9, 3, 7)]
SECONDS = [text(6, seed=1), text(4, seed=2), text(6, seed=1), text(8, seed=3)]


def task_of(**options):
    kind = "number" if options.get("objective") == "cosine" else "pair"
    return TASKS.build(
        {"kind": "similarity", **options}, vocabulary=vocabulary(), labels=Labels(kind, examples=4)
    )


def model_of(family=lab.encoder, pooling="mean"):
    sizes = {"vocabulary": SIZE, "width": 16, "layers": 2, "heads": 2, "length": 16}
    return family(**sizes, output=f"sentence(pooling={pooling})").double().eval()


def by_hand(model, ids, pooling):
    with torch.no_grad():
        hidden = model.trunk(torch.tensor([ids]))[0]
    vector = {"mean": hidden.mean(0), "first": hidden[0], "last": hidden[-1]}[pooling]
    return (vector / vector.norm()).tolist()


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("family", [lab.encoder, lab.decoder])
def test_the_loss_is_written_out(family, pooling):
    """Row 0 and row 2 have the same second text, which is no negative for either."""
    model, task = model_of(family, pooling), task_of(temperature=0.2)
    task.check(model)
    with torch.no_grad():
        found = task.loss(model, task.prepare(batch(*ROWS, target=SECONDS), 0)).each.tolist()
    first, second = ([by_hand(model, ids, pooling) for ids in side] for side in (ROWS, SECONDS))
    for row, value in enumerate(found):
        scores = [sum(a * b for a, b in zip(first[row], other, strict=True)) / 0.2 for other in second]
        among = [s for n, s in enumerate(scores) if n == row or SECONDS[n] != SECONDS[row]]
        assert value == pytest.approx(math.log(sum(map(math.exp, among))) - scores[row], abs=1e-9)


def test_graded_pairs_are_a_squared_error_of_the_cosine():
    model, task = model_of(), task_of(objective="cosine", highest=5.0)
    numbers = [5.0, 0.0, 2.5, 4.0]
    prepared = task.prepare(batch(*ROWS, target=SECONDS, number=numbers), 0)
    with torch.no_grad():
        found, said = task.loss(model, prepared).each.tolist(), task.predict(model, prepared)
    for row, value in enumerate(found):
        one, other = by_hand(model, ROWS[row], "mean"), by_hand(model, SECONDS[row], "mean")
        cosine = sum(a * b for a, b in zip(one, other, strict=True))
        assert value == pytest.approx((cosine - numbers[row] / 5) ** 2, abs=1e-6)
        assert float(said["predicted_number"][row]) == pytest.approx(5 * cosine, abs=1e-6)


def test_equal_texts_have_one_key_whatever_their_padding():
    ids = torch.tensor([[5, 6, 7, 0], [5, 6, 7, 9], [7, 6, 5, 0]])
    keys = keys_of(ids).tolist()
    assert keys[0] == keys_of(torch.tensor([[5, 6, 7]])).tolist()[0] and len({*keys}) == 3


def test_a_rank_is_among_all_second_texts_each_once():
    task, draw = task_of(), np.random.default_rng(0)
    vectors = draw.normal(size=(2, 30, 5))
    key = np.arange(30) % 20  # ten second texts are there twice
    vectors[1] = vectors[1][key]
    columns = {"query_vector": vectors[0], "passage_vector": vectors[1], "passage": key, "nats": np.zeros(30)}
    found, _ = task.by_example(columns, np.arange(30))
    slow = [
        1 + sum(q @ vectors[1][other] >= q @ vectors[1][n] for other in range(20) if other != key[n])
        for n, q in enumerate(vectors[0])
    ]
    assert found["rank"].tolist() == slow and set(found) == {*columns, "rank", "cluster"}
    assert found["cluster"].tolist() == key.tolist()


def test_rows_of_graded_pairs_are_kept_apart_from_those_of_others():
    """They hold a number: rows that were encoded for the other objective must not serve."""
    identities = {task_of(objective=name).reader.identity for name in ("negatives", "cosine")}
    assert len(identities) == 2


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="temperature"):
        task_of(temperature=0.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    optimizer = {"kind": "adamw", "learning_rate": 5e-3}
    changes = {"training": {"budget": {"steps": 150}, "evaluate_every": 75, "optimizer": optimizer}}
    changes["training"]["evaluate_batches"] = "all"
    return train(config(folder, **merged(for_task("similarity", folder), changes)), folder / "run")


def test_it_learns_to_find_and_is_sound(run):
    assert run.unsound == (), run.failures
    told = Trained.at(run.folder).evaluate("dev")
    mrr = told["measures"]["reciprocal_rank"]
    assert mrr["value"] > 0.5 and told["retrieval"]["measures"]["reciprocal_rank"]["bm25"]["value"] < 0.3
    shown = command("evaluate", run.folder)
    assert "model − BM25" in shown.stdout and shown.exit_code == 0


def test_graded_pairs_are_learned_scored_and_predicted(tmp_path):
    """Numbers from 0 to 4: the share of the parts of two sentences that both have."""
    rows = [json.loads(line) for line in paired(tmp_path).read_text().splitlines()]
    codes = {row["pair"]: frozenset(row["pair"].split()) for row in rows}
    pick = np.random.default_rng(0)
    graded = []
    for row in rows * 2:
        other = rows[pick.integers(len(rows))]["pair"] if pick.random() < 0.6 else row["pair"]
        shared = len(codes[row["pair"]] & codes[other]) / len(codes[row["pair"]] | codes[other])
        graded.append({"text": row["text"], "pair": other, "score": round(4 * shared, 2)})
    (tmp_path / "graded.jsonl").write_text("".join(json.dumps(one) + "\n" for one in graded))
    changes = {
        "task": {"kind": "similarity", "objective": "cosine", "highest": 4.0},
        "data": {"corpus": {"kind": "files", "path": str(tmp_path / "graded.jsonl"), "label": "score"}},
        "training": {
            "budget": {"steps": 150},
            "evaluate_every": 75,
            "evaluate_batches": "all",
            "optimizer": {"kind": "adamw", "learning_rate": 5e-3},
        },
    }
    run = train(config(tmp_path, **merged(for_task("similarity", tmp_path), changes)), tmp_path / "run")
    assert run.unsound == (), run.failures
    opened = Trained.at(run.folder)
    measures = opened.evaluate("dev")["measures"]
    assert list(measures)[:2] == ["spearman", "pearson"]
    low, high = measures["spearman"]["interval"]
    assert 0.3 < low < measures["spearman"]["value"] < high < 1
    (tmp_path / "few.jsonl").write_text("".join(json.dumps(one) + "\n" for one in graded[:30]))
    said = [one.answer for one in opened.predict([(one["text"], one["pair"]) for one in graded[:30]])]
    told = answer("evaluate", run.folder, "--on", tmp_path / "few.jsonl")["text"]
    wanted = stats.spearmanr(said, [one["score"] for one in graded[:30]]).statistic
    assert told["measures"]["spearman"]["value"] == pytest.approx(wanted, abs=1e-6)
    (tmp_path / "high.jsonl").write_text(json.dumps(graded[0] | {"score": 7}) + "\n")
    refused = command("evaluate", run.folder, "--on", tmp_path / "high.jsonl")
    assert refused.exit_code and "is above task.highest 4" in str(refused.exception)


def test_it_searches_with_the_pooling_that_it_learned(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows = [json.loads(line) for line in paired(run.folder.parent).read_text().splitlines()[:40]]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": row["pair"]}) + "\n" for row in rows))
    opened = Trained.at(run.folder)
    found = [opened.search(row["text"], inside=tmp_path / "rows.jsonl", top=3) for row in rows[:10]]
    right = sum(row["pair"] in [hit.text for hit in hits] for row, hits in zip(rows, found, strict=False))
    assert right >= 7
    (cosine,) = opened.predict([(rows[0]["text"], rows[0]["pair"])])
    assert -1 <= cosine.answer <= 1
    assert answer("predict", run.folder, f"{rows[0]['text']} => {rows[0]['pair']}")[0][
        "answer"
    ] == pytest.approx(cosine.answer, abs=1e-5)


def test_the_study_of_families_resolves():
    resolved = resolve(load_study("understanding"))
    assert list(resolved.configs) == ["encoder", "decoder", "encoder-decoder"]
    families = {name: one.model.family for name, one in resolved.configs.items()}
    assert families == {"encoder": "encoder", "decoder": "decoder", "encoder-decoder": "encoder"}
