"""Text of one split in another, put there on purpose: equal, nearly equal, by way of the tokenizer."""

import random
import re

import pytest

from attnlab.checks.contamination import Contamination
from attnlab.checks.query_duplicates import QueryDuplicates
from attnlab.config.files import section_of
from attnlab.data import overlap
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.synthetic import Puzzle
from attnlab.data.dataset import Dataset
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.data.tokenizers.tokenizer_files import load
from tests.checks.cases import config, found, of
from tests.training.small_run import set_up

WORDS = [f"{a}{b}{c}" for a in "bdkmt" for b in "aeiou" for c in ("l", "n", "rs", "st", "")]
SHARES = {"all": 1.0, "a third": 0.34}


def sentences(count, seed, shortest=8, longest=14):
    pick = random.Random(seed)
    return [" ".join(pick.choices(WORDS, k=pick.randint(shortest, longest))) for _ in range(count)]


def dataset_of(folder, **splits):
    """A corpus whose splits are given, line by line."""
    folder.mkdir(exist_ok=True, parents=True)
    for name, lines in splits.items():
        (folder / f"{name}.txt").write_text("\n".join(lines))
    made = {f"{name}_share": 0.0 for name in ("dev", "test") if name not in splits}
    return {"corpus": {"kind": "files", "path": str(folder), "unit": "line"}} | made


def finding_of(folder, tokenizer="word(vocabulary=400, minimum_count=1)", **splits):
    return found(
        "contamination", of(set_up(config(data=dataset_of(folder, **splits) | {"tokenizer": tokenizer})))
    )


# nearly equal texts


def changed(words, pick):
    words[pick.randrange(len(words))] = pick.choice(WORDS)


def changed_twice(words, pick):
    for place in (0, len(words) // 2):
        words[place] = pick.choice(WORDS)


def swapped(words, pick):
    a, b = pick.sample(range(len(words)), 2)
    words[a], words[b] = words[b], words[a]


def swapped_neighbours(words, pick):
    a = pick.randrange(len(words) - 1)
    words[a], words[a + 1] = words[a + 1], words[a]


def dropped(words, pick):
    del words[pick.randrange(len(words))]


def added(words, pick):
    words.insert(pick.randrange(len(words)), pick.choice(WORDS))


def punctuated(words, pick):
    words[:] = [f"{word.upper()}," for word in words]


def spoilt(lines, fault, seed=3):
    pick, made = random.Random(seed), []
    for line in lines:
        words = line.split()
        fault(words, pick)
        made.append(" ".join(words))
    return made


FAULTS = [changed, changed_twice, swapped, swapped_neighbours, dropped, added, punctuated]


@pytest.mark.parametrize("part", SHARES)
@pytest.mark.parametrize("fault", FAULTS)
def test_texts_that_differ_by_a_few_words_are_told_apart_from_equal_ones(tmp_path, fault, part):
    train, fresh = sentences(600, 0), sentences(300, 1)
    count = round(300 * SHARES[part])
    dev = [*spoilt(train[:count], fault), *fresh[count:]]
    finding = finding_of(tmp_path / "c", train=train, dev=dev)
    assert finding.outcome == "warn" and "differ from those of train by a few words" in finding.meaning
    assert finding.number < 0.05 and "of 300 texts are equal" in finding.found, "equal ones are counted apart"
    assert " are near duplicates (" in finding.found and '" and "' in finding.found, "with an example of two"


def test_short_lines_with_one_word_changed_are_told(tmp_path):
    train = sentences(600, 0, shortest=6, longest=8)
    finding = finding_of(tmp_path / "c", train=train, dev=spoilt(train[:300], changed))
    assert finding.outcome == "warn" and "by a few words" in finding.meaning


def test_a_paragraph_of_a_long_text_with_words_changed_is_told(tmp_path):
    """Train's texts are long: a match is one stretch of them, not what is scattered over all."""
    train, pick = sentences(60, 0, shortest=300, longest=400), random.Random(0)
    dev = [" ".join(line.split()[120:160]) for line in train]
    finding = finding_of(tmp_path / "c", train=train, dev=spoilt(dev, changed_twice))
    assert finding.outcome == "warn" and "by a few words" in finding.meaning
    scattered = [" ".join(pick.sample(line.split(), 40)) for line in train]
    assert finding_of(tmp_path / "d", train=train, dev=scattered).outcome == "pass"


@pytest.mark.parametrize("seed", range(1, 5))
def test_new_texts_of_the_same_words_pass(tmp_path, seed):
    finding = finding_of(tmp_path / "c", train=sentences(600, 0), dev=sentences(300, seed))
    assert finding.outcome == "pass" and "0 of 300 texts are equal" in finding.found, finding.found


def test_a_corpus_that_repeats_itself_is_no_alarm_and_is_told_so(tmp_path):
    """Every line of train is nearly another one of it; what is new in dev is as near to train, no nearer."""
    stems = sentences(40, 0)
    lines = [line for n in range(12) for line in spoilt(stems, changed, seed=n)]
    random.Random(0).shuffle(lines)
    lines = list(dict.fromkeys(lines))
    finding = finding_of(tmp_path / "c", train=lines[100:], dev=lines[:100])
    assert finding.outcome == "pass" and "% of train's own" in finding.found


def test_headings_in_both_splits_are_no_alarm(tmp_path):
    """A tenth of the lines of an encyclopedia are "Reception" and the like: equal, and hardly any text."""
    headings = ["= History =", "= References =", "= Reception ="] * 15
    train, dev = [*sentences(600, 0), *headings], [*sentences(300, 1), *headings]
    finding = finding_of(tmp_path / "c", train=train, dev=dev)
    assert finding.outcome == "pass" and "45 of 345 texts are equal" in finding.found


# every two splits


def test_test_is_compared_with_dev(tmp_path):
    train, dev, fresh = sentences(600, 0), sentences(200, 1), sentences(200, 2)
    alike = finding_of(tmp_path / "a", train=train, dev=dev, test=dev)
    assert alike.outcome == "fail" and "chosen by" in alike.meaning
    assert f'test in dev: 200 of 200 texts are equal (100.0% of the characters; "{dev[0]}")' in alike.found
    part = finding_of(tmp_path / "b", train=train, dev=dev, test=[*dev[:20], *fresh[20:]])
    assert part.outcome == "warn" and "test has texts of dev" in part.meaning
    near = finding_of(tmp_path / "c", train=train, dev=dev, test=spoilt(dev, swapped_neighbours))
    assert near.outcome == "warn" and "test has texts that differ from those of dev" in near.meaning
    assert finding_of(tmp_path / "d", train=train, dev=dev, test=fresh).outcome == "pass"


def test_test_in_train_is_told_where_dev_is_clean(tmp_path):
    train = sentences(600, 0)
    finding = finding_of(tmp_path / "c", train=train, dev=sentences(200, 1), test=train[:200])
    assert finding.outcome == "fail" and "what is called test is a training score" in finding.meaning


def test_a_large_dev_split_leaves_train_to_be_read(tmp_path, monkeypatch):
    """Of each split so much is held, not of all together: and it is said what was not. Equal texts are
    counted in all of it, wherever they stand."""
    monkeypatch.setattr(overlap, "TEXTS", 100)
    train = sentences(300, 0)
    for dev in ([*sentences(200, 1), *train[:50]], [*train[-50:], *sentences(200, 1)]):
        finding = finding_of(tmp_path / "c", train=train, dev=dev)
        held = re.findall(r"of ([0-9]+) of the (300|250) texts of (train|dev), chosen", finding.found)
        assert [(of, name) for _, of, name in held] == [("300", "train"), ("250", "dev")]
        assert all(20 < int(texts) <= 100 for texts, _, _ in held)
        assert "50 of 250 texts are equal" in finding.found


def judged_large(folder, monkeypatch, **splits):
    """The finding of splits of which a tenth is held, gathered while they are encoded."""
    monkeypatch.setattr(overlap, "TEXTS", 1000)
    data = section_of("data", dataset_of(folder / "c", **splits) | {"tokenizer": "word(minimum_count=1)"})
    made = Dataset(data, cache=folder / "cache")
    for split in made.splits.names:
        made.rows(split)
    with monkeypatch.context() as patch:
        patch.setattr(type(made.corpus), "read", lambda *_: pytest.fail("the text was read again"))
        return Contamination().judge("before", made.overlap)


def test_a_hundredth_of_dev_in_a_large_train_is_counted_exactly(tmp_path, monkeypatch):
    train, pick = sentences(8000, 0), random.Random(2)
    dev = [*sentences(990, 1), *pick.sample(train, 10)]
    pick.shuffle(dev)
    finding = judged_large(tmp_path, monkeypatch, train=train, dev=dev)
    assert "dev in train: 10 of 1,000 texts are equal" in finding.found
    assert re.search(r"of [0-9]+ of the 8,000 texts of train, chosen by their hashes", finding.found)


@pytest.mark.parametrize("fault", [changed, swapped_neighbours])
def test_near_duplicates_are_found_in_a_sample_of_a_large_train(tmp_path, monkeypatch, fault):
    train, pick = sentences(8000, 0), random.Random(2)
    spoilt_texts = spoilt(pick.sample(train, 400), fault)
    finding = judged_large(tmp_path / "a", monkeypatch, train=train, dev=[*sentences(600, 1), *spoilt_texts])
    assert finding.outcome == "warn" and "differ from those of train by a few words" in finding.meaning
    sound = judged_large(tmp_path / "b", monkeypatch, train=train, dev=sentences(1000, 1))
    assert sound.outcome == "pass"


def test_a_large_text_that_repeats_itself_is_no_alarm(tmp_path, monkeypatch):
    """Of train few texts are held, of dev all: what is near depends on how many are searched."""
    base, pick = sentences(400, 0), random.Random(5)
    texts = [line for seed in range(24) for line in spoilt(base, changed, seed)]
    pick.shuffle(texts)
    parts = {"train": texts[:8000], "dev": texts[8000:8800], "test": texts[8800:]}
    assert judged_large(tmp_path, monkeypatch, **parts).outcome == "pass"


def test_a_corpus_without_end_is_read_to_a_bound(monkeypatch):
    """Splits made from it too: what is read is bounded by characters."""
    data = section_of("data", {"corpus": "copy(examples=10000000)", "encoding": "prefix"})
    monkeypatch.setattr(overlap, "CHARACTERS", 20_000)
    counted = Dataset(data).overlap
    assert not counted["read"]["train"]["all"] and counted["read"]["train"]["texts"] < 2000


# the tokenizer's text


def trained_on(folder, *texts):
    """A tokenizer that was trained elsewhere, with its record beside it."""
    made = TOKENIZERS.build("word(vocabulary=400, minimum_count=1)").train(
        (text for some in texts for text in some), source="other.txt"
    )
    return str(made.save(folder / "tokenizer.json"))


def joined(lines):
    """The same text, its lines of another length."""
    whole = " ".join(lines).split()
    return [" ".join(whole[n : n + 23]) for n in range(0, len(whole), 23)]


@pytest.mark.parametrize("form", [list, joined])
@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_tokenizer_trained_on_text_that_is_judged_is_told(tmp_path, split, form):
    splits = {"train": sentences(600, 0), "dev": sentences(200, 1), "test": sentences(200, 2)}
    file = trained_on(tmp_path, splits["train"], form(splits[split]))
    finding = finding_of(tmp_path / "c", tokenizer=file, **splits)
    assert finding.outcome == "warn" and f"the tokenizer was trained on text of {split}" in finding.meaning
    assert "trained on other.txt" in finding.found
    clean = trained_on(tmp_path, splits["train"], sentences(300, 5))
    assert finding_of(tmp_path / "c", tokenizer=clean, **splits).outcome == "pass"


def test_a_dataset_that_trains_its_tokenizer_on_every_split_is_told(tmp_path, monkeypatch):
    splits = {"train": sentences(600, 0), "dev": sentences(200, 1)}
    assert finding_of(tmp_path / "a", **splits).outcome == "pass"
    monkeypatch.setattr(
        Dataset,
        "_texts",
        lambda self, *_: (e.text for name in self.splits.names for e in self.splits.read(name)),
    )
    finding = finding_of(tmp_path / "b", **splits)
    assert finding.outcome == "warn" and "the tokenizer was trained on text of dev" in finding.meaning


def test_many_texts_are_known_again_by_a_few_of_their_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("attnlab.data.tokenizers.training_text.KEPT", 500)
    splits = {"train": sentences(900, 0), "dev": sentences(400, 1)}
    file = trained_on(tmp_path, splits["train"], splits["dev"])
    assert len(load(file).text.runs) == 500
    assert finding_of(tmp_path / "c", tokenizer=file, **splits).outcome == "warn"
    clean = trained_on(tmp_path, splits["train"])
    assert finding_of(tmp_path / "c", tokenizer=clean, **splits).outcome == "pass"


def test_a_tokenizer_without_a_record_says_nothing_and_another_ones_record_is_not_taken(tmp_path):
    splits = {"train": sentences(600, 0), "dev": sentences(200, 1)}
    file = trained_on(tmp_path, splits["dev"])
    record = (tmp_path / "tokenizer.text.json").read_text()
    TOKENIZERS.build("word(vocabulary=50)").make(splits["train"]).save(file)
    (tmp_path / "tokenizer.text.json").write_text(record)
    assert load(file).text is None
    finding = finding_of(tmp_path / "c", tokenizer=file, **splits)
    assert finding.outcome == "pass" and "tokenizer" not in finding.found


# what is not contamination


@pytest.mark.parametrize("kind", [kind for kind in CORPORA if issubclass(CORPORA[kind], Puzzle)])
@pytest.mark.parametrize("options", [{"examples": 3000}, {"examples": 300}])
def test_tasks_whose_lines_are_alike_by_design_are_no_alarm(kind, options):
    if kind == "modular_addition":
        options = {"modulus": 11 if options["examples"] == 300 else 53}
    data = {
        "corpus": {"kind": kind} | options,
        "encoding": "prefix",
        "length": 64,
        "batching": "padded(batch_size=8)",
    }
    finding = found("contamination", of(set_up(config("prefix", data=data, model={"length": 64}))))
    assert finding.outcome == "pass" and finding.number < 0.01, finding.found


def test_small_tasks_say_that_their_texts_cannot_be_told_apart():
    data = {
        "corpus": "modular_addition(modulus=11)",
        "encoding": "prefix",
        "batching": "padded(batch_size=8)",
    }
    finding = found("contamination", of(set_up(config("prefix", data=data))))
    assert "too short or too similar" in finding.found


@pytest.mark.parametrize("tokenizer", ["character", "bpe(vocabulary=300)", "word(vocabulary=400)"])
@pytest.mark.parametrize("encoding", ["single", "document", "document(long=cut)"])
@pytest.mark.parametrize("length", [6, 24])
def test_what_is_found_does_not_depend_on_how_the_text_is_read(tmp_path, tokenizer, encoding, length):
    """13 words stay 13 words: with cut texts and short tokens they were 13 characters."""
    train = sentences(300, 0, shortest=16, longest=30)
    data = dataset_of(tmp_path / "c", train=train, dev=sentences(60, 1, shortest=16, longest=30))
    data |= {"tokenizer": tokenizer, "encoding": encoding, "length": length}
    about = of(set_up(config(data=data, model={"length": length})))
    finding = found("contamination", about)
    assert finding.outcome == "pass" and finding.number == 0
    (pair,) = about.dataset.overlap["pairs"]
    assert pair["all_runs"] == sum(
        max(len(e.text.split()) - 12, 0) for e in about.dataset.splits.read("dev")
    ), "of 13 words each"


# ---------------------------------------------------------------- queries that stand in what is searched
QUESTIONS = [(f"Who wrote book {n}?", f"Book {n} was written by author {n} in {n + 1}.") for n in range(50)]
QUERY_FAULTS = {
    "copied from the passage": lambda q, p: (" ".join(p.split()[:4]), p),
    "equal to a passage": lambda q, p: (p.upper(), p),
    "asked twice": lambda q, p: ("Who?", p),
}


@pytest.mark.parametrize("fault", QUERY_FAULTS)
def test_queries_that_stand_in_the_index_are_told(fault):
    pairs = [QUERY_FAULTS[fault](*pair) if n < 6 else pair for n, pair in enumerate(QUESTIONS)]
    finding = QueryDuplicates().judge("evaluation", pairs)
    assert finding.outcome == "warn" and finding.number == 6 / 50
    assert QueryDuplicates().judge("evaluation", QUESTIONS).outcome == "pass"
