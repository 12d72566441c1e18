"""A linear model of words: against scikit-learn, on texts of two scripts, and the faults that it names."""

import random

import numpy as np
import pytest

from attnlab.checks.word_baseline import WordBaseline
from attnlab.data.example import Example, Word
from attnlab.data.labels import Labels
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.targets.bag_of_words import ANY_CLASSES, NUMBER, ONE_CLASS, STRENGTH, BagOfWords, features
from attnlab.tasks import TASKS
from attnlab.tasks.vocabulary import Vocabulary
from tests.checks.cases import case, config, found, of
from tests.training.small_run import set_up

TOPICS = {
    "food": ["bread", "soup", "salt", "oven", "taste", "kitchen", "plate", "sauce"],
    "sea": ["wave", "boat", "salt", "sand", "harbour", "sail", "tide", "plate"],
    "sky": ["cloud", "star", "moon", "wind", "light", "wing", "tide", "sail"],
}
HAN = {"food": "面包汤盐炉味厨盘", "sea": "浪船盐沙港帆潮盘", "sky": "云星月风光翼潮帆"}


def rows(count, *, seed=0, words=TOPICS, between=" ", noise=0.0):
    """Texts of a topic's words among those of all, each with its topic."""
    pick = random.Random(seed)
    every = [word for own in words.values() for word in own]
    made = []
    for _ in range(count):
        topic = pick.choice([*words])
        own = [pick.choice(words[topic]) for _ in range(5)] + [pick.choice(every) for _ in range(6)]
        pick.shuffle(own)
        label = pick.choice([*words]) if pick.random() < noise else topic
        made.append(Example(between.join(own), label=label))
    return made


def task_of(kind, labels):
    return TASKS.build(kind, vocabulary=Vocabulary.draft(20), labels=labels)


TOPIC = task_of("classification", Labels("class", names=tuple(TOPICS), counts=(1, 1, 1), examples=3))


def scored(task, train, dev):
    said = task.target.bag_of_words(task, train)(dev)
    return METRICS.build(task.metrics[0]).value(said)


@pytest.mark.parametrize(("words", "between"), [(TOPICS, " "), (HAN, "")], ids=["spaces", "no spaces"])
def test_words_of_any_script_tell_a_topic(words, between):
    train, dev = (rows(n, seed=n, words=words, between=between) for n in (400, 200))
    assert scored(TOPIC, train, dev) > 0.85
    assert scored(TOPIC, train, dev) == scored(TOPIC, train, dev)  # nothing is drawn


def test_it_loses_as_little_as_scikit_learn_does():
    linear = pytest.importorskip("sklearn.linear_model")
    train = rows(300, noise=0.3)
    names = [*TOPICS]
    right = np.array([names.index(row.label) for row in train])
    model = BagOfWords.fit(train, np.eye(3)[right], ONE_CLASS)
    x = features(train).multiply(model.rarity).tocsr()
    x = x.multiply(1 / np.sqrt(x.multiply(x).sum(1))).tocsr()
    theirs = linear.LogisticRegression(C=STRENGTH, max_iter=500).fit(x, right)

    def lost(weights, bias):
        scores = x @ weights + bias
        return STRENGTH * ONE_CLASS.lose(scores, np.eye(3)[right]) + 0.5 * (weights**2).sum()

    least = lost(theirs.coef_.T, theirs.intercept_)
    assert lost(model.weights, model.bias) < 1.02 * least
    agree = (model(train).argmax(1) == theirs.predict(x)).mean()
    assert agree > 0.98


def test_its_weights_are_those_of_the_penalised_least_squares():
    """Against the normal equations: half the square of the error four times, half the square of the weights
    once, no penalty on the bias."""
    train = rows(40, seed=2)
    y = np.array([[float(row.text.split().count("salt") + 3)] for row in train])
    model = BagOfWords.fit(train, y, NUMBER)
    x = features(train).multiply(model.rarity).tocsr()
    x = x.multiply(1 / np.sqrt(x.multiply(x).sum(1))).toarray()
    used = np.flatnonzero(x.any(0))
    with_bias = np.hstack([x[:, used], np.ones((len(y), 1))])
    penalty = np.diag([1.0] * len(used) + [0.0])
    exact = np.linalg.solve(4.0 * with_bias.T @ with_bias + penalty, 4.0 * with_bias.T @ y)
    assert model.bias == pytest.approx(exact[-1], rel=0.02)
    assert np.linalg.norm(model.weights[used] - exact[:-1]) < 0.05 * np.linalg.norm(exact[:-1])


def test_several_labels_and_numbers():
    train, dev = rows(500), rows(200, seed=1)
    many = task_of("multilabel", Labels("classes", names=("salt", "tide"), counts=(1, 1), examples=2))

    def labelled(texts):
        return [
            Example(one.text, label=tuple(w for w in ("salt", "tide") if w in one.text.split()))
            for one in texts
        ]

    assert scored(many, labelled(train), labelled(dev)) > 0.95

    def numbered(texts):
        return [Example(one.text, label=str(2 * one.text.split().count("sail") + 7)) for one in texts]

    counts = [2 * one.text.split().count("sail") + 7 for one in train]
    labels = Labels("number", examples=500, mean=float(np.mean(counts)), deviation=float(np.std(counts)))
    number = task_of("regression", labels)
    said = number.target.bag_of_words(number, numbered(train))(numbered(dev))
    assert METRICS.build("explained_variance").value(said) > 0.6
    for form, targets in ((ANY_CLASSES, np.eye(3)[:, :2]), (NUMBER, np.array([[0.0], [1.0], [2.0]]))):
        alone = BagOfWords.fit(train[:3], targets, form)
        assert np.isfinite(alone(dev)).all()


def test_a_word_has_its_most_frequent_tag_and_an_unknown_word_the_most_frequent_of_all():
    def tagged(*pairs):
        text, words = "", []
        for word, tag in pairs:
            words.append(Word(len(text), len(text) + len(word), tag))
            text += f"{word} "
        return Example(text.strip(), words=tuple(words))

    labels = Labels("tags", names=("B-WHO", "O"), counts=(3, 4), examples=3)
    task = task_of("tagging", labels)
    train = [tagged(("Ann", "B-WHO"), ("may", "O"), ("sing", "O")), tagged(("may", "O"), ("Ann", "B-WHO"))]
    train += [tagged(("may", "B-WHO"), ("sing", "O"))]
    said = task.target.bag_of_words(task, train)([tagged(("Ann", "B-WHO"), ("may", "B-WHO"), ("Bob", "O"))])
    right, true, given = said["tag_counts"].reshape(3, 2)
    assert right.tolist() == [1, 1] and true.tolist() == [2, 1] and given.tolist() == [1, 2]


def test_a_pair_is_told_by_the_words_that_both_have():
    pick = random.Random(0)
    every = [f"w{n}" for n in range(40)]
    made = []
    for _ in range(1200):
        one, same = pick.sample(every, 6), pick.random() < 0.5
        two = one if same else pick.sample([word for word in every if word not in one], 6)
        made.append(Example(" ".join(one), " ".join(pick.sample(two, 6)), label="same" if same else "other"))
    labels = Labels("class", names=("other", "same"), counts=(1, 1), examples=2)
    assert scored(task_of("classification", labels), made[:1000], made[1000:]) > 0.8


# ---------------------------------------------------------------- the check
def suspected(examples):
    """What is found of rows by what one half says of the other."""
    labels = np.array([[*TOPICS].index(one.label) for one in examples])
    return WordBaseline().judge_labels("before", examples, labels, classes=3)


def moved(examples, by):
    labels = [one.label for one in examples]
    return [
        Example(one.text, label=label) for one, label in zip(examples, labels[by:] + labels[:by], strict=True)
    ]


@pytest.mark.parametrize("by", [1, 7, 500])
def test_labels_of_other_texts_are_suspected_and_noisy_ones_are_not(by):
    right = rows(1000, noise=0.5)
    assert suspected(right).outcome == "pass"
    finding = suspected(moved(right, by))
    assert finding.kind == "at_chance" and "may not belong to these texts" in finding.sentence


def test_few_rows_and_a_rare_class_are_not_suspected():
    assert suspected(moved(rows(80), 1)).outcome == "pass"  # too few to rule out that words help
    pick = random.Random(3)
    rare = [
        Example(one.text, label="sea" if pick.random() < 0.9 else one.label) for one in rows(1500, seed=4)
    ]
    assert suspected(rare).outcome == "pass"  # the accuracy is that of "sea", and nats are gained


def test_a_model_that_is_worse_than_words_is_named_with_its_interval():
    dev = rows(300, seed=5)
    words = TOPIC.target.bag_of_words(TOPIC, rows(500))(dev)
    poor = np.eye(3)[np.random.default_rng(0).integers(3, size=300)]
    model = Examples({"label": words["label"], "probabilities": poor})
    finding = WordBaseline().judge("evaluation", TOPIC, model, words)
    assert (finding.outcome, finding.kind) == ("warn", "better") and finding.values["low"] > 0.3
    for better in (words, Examples({"label": words["label"], "probabilities": np.eye(3)[words["label"]]})):
        assert WordBaseline().judge("evaluation", TOPIC, better, words).outcome == "pass"


def test_lower_is_better_where_the_metric_says_so():
    labels = Labels("number", examples=3, mean=0.0, deviation=1.0)
    task = task_of("regression", labels)
    truth = np.linspace(0, 1, 50)
    good = Examples({"number": truth, "predicted_number": truth + 0.01 * np.resize([1, -2], 50)})
    poor = Examples({"number": truth, "predicted_number": truth + np.resize([1.0, -0.5], 50)})
    assert WordBaseline().judge("after", task, poor, good).kind == "better"
    assert WordBaseline().judge("after", task, good, poor).kind == "not_better"


@pytest.mark.parametrize(
    "task", ["classification", "multilabel", "regression", "tagging", "answering", "causal"]
)
def test_it_is_asked_where_words_tell_the_target(task):
    finding = found("bag_of_words", case(task))
    suspects = task == "classification"
    assert finding.outcome == ("pass" if suspects else "not applicable"), finding.found


def test_a_trained_model_is_compared_on_the_very_texts_of_dev(monkeypatch):
    session = set_up(config("classification"))
    evaluation = session.evaluator("dev", batches=3)()
    about = of(session, when="after", examples=evaluation.examples, evaluation=evaluation)
    seen = []
    judge = WordBaseline.judge
    monkeypatch.setattr(WordBaseline, "judge", lambda *given: seen.extend(given[3:]) or judge(*given))
    finding = found("bag_of_words", about)
    model, words = seen
    assert (model["label"] == words["label"]).all() and len({*words["label"].tolist()}) > 2
    assert finding.kind == "better" and finding.values["words"] > 0.9 > finding.values["model"]
    assert finding.values["n"] == len(evaluation.numbers) < len(session.dataset.texts("dev"))
