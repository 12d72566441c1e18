"""Entities as seqeval finds them, words and their tokens, and a tagger from its files to its marked text."""

import itertools
import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnlab as lab
from attnlab.data.corpora import CORPORA
from attnlab.data.corpora.own_files import Files
from attnlab.data.encode import ENCODINGS
from attnlab.data.errors import DataError
from attnlab.data.example import Example, Word, tagged_words, words_in
from attnlab.data.labels import LabelReader, Labels, tags_of
from attnlab.data.tokenizers import TOKENIZERS
from attnlab.metrics import METRICS
from attnlab.metrics.metric import Examples
from attnlab.metrics.tags import entities, entity_counts, invalid, labels_of_tags
from attnlab.session.predicting import Predictor
from attnlab.session.trained import Trained
from attnlab.targets import TARGETS
from attnlab.tasks import TASKS
from attnlab.training.loop import backward
from tests.session.commands import answer, command
from tests.tasks.examples import SIZE, batch, vocabulary
from tests.training.small_run import config, for_task, merged, tagged, train

TAG = st.sampled_from(["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b", "I-c"])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=9), min_size=1, max_size=5)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(SENTENCES)
def test_entities_are_those_of_seqeval(pairs):
    theirs = pytest.importorskip("seqeval.metrics")
    from seqeval.metrics.sequence_labeling import get_entities

    right, said = ([[pair[side] for pair in one] for one in pairs] for side in (0, 1))
    for tags in (*right, *said):
        wanted = [(label, first, last + 1) for label, first, last in get_entities(tags)]
        assert entities(tags) == wanted
    labels = labels_of_tags([tag for one in (*right, *said) for tag in one])
    if not labels:
        return
    counts = [entity_counts(r, s, labels) for r, s in zip(right, said, strict=True)]
    found = Examples({"entities": np.stack(counts)})
    for name, score in (
        ("entity_f1", theirs.f1_score),
        ("entity_precision", theirs.precision_score),
        ("entity_recall", theirs.recall_score),
    ):
        value = METRICS.build(name).value(found)
        assert (0.0 if np.isnan(value) else value) == pytest.approx(score(right, said, zero_division=0))


def test_a_tag_that_continues_nothing_is_invalid():
    assert invalid(["O", "I-a", "I-a", "B-a", "E-a", "I-a", "I-b"]) == 3
    assert invalid(["B-a", "I-a", "E-a", "O", "S-b", "plain"]) == 0
    assert entities(["NOUN", "NOUN", "O", "VERB"]) == [("NOUN", 0, 1), ("NOUN", 1, 2), ("VERB", 3, 4)]


# ---------------------------------------------------------------- files


def test_three_forms_of_one_sentence(tmp_path):
    (tmp_path / "a.conll").write_text(
        "-DOCSTART- O\n\nJill NNP B-PER\nlives VBZ O\nin IN O\nOslo NNP B-LOC\n\n\n"
    )
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"tokens": ["Jill", "lives", "in", "Oslo"], "ner_tags": ["B-PER", "O", "O", "B-LOC"]})
    )
    spans = [{"start": 14, "end": 18, "label": "LOC"}, {"start": 0, "end": 4, "label": "PER"}]
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "Jill lives in Oslo", "spans": spans}))
    found = [
        next(iter(Files(path=str(tmp_path / name)).read())) for name in ("a.conll", "b.jsonl", "c.jsonl")
    ]
    assert {one.text for one in found} == {"Jill lives in Oslo"} and len({one.words for one in found}) == 1
    assert tags_of(found[0]) == ("B-PER", "O", "O", "B-LOC")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.conll", "Jill B-PER\nlives\n", "1 or 2 columns"),
        ("a.jsonl", '{"tokens": ["Jill", "lives"], "tags": ["O"]}', "2 tokens and 1 tags"),
        ("a.jsonl", '{"tokens": ["Jill lives"], "tags": ["O"]}', "not a single word"),
        ("a.jsonl", '{"text": "Jill", "spans": [{"start": 2, "end": 9, "label": "x"}]}', "outside the text"),
        (
            "a.jsonl",
            json.dumps({"text": "Jill", "spans": [{"start": n, "end": n + 3, "label": "x"} for n in (0, 1)]}),
            "over another",
        ),
    ],
)
def test_broken_rows_are_named(tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        list(Files(path=str(tmp_path / name)).read())


def test_a_column_of_another_meaning_is_left_alone(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Jill", "tags": "news, people", "label": "x"}')
    (found,) = Files(path=str(tmp_path / "a.jsonl")).read()
    assert found.words == () and found.label == "x"
    with pytest.raises(DataError, match="has no tags"):
        tags_of(found)


def test_words_are_cut_where_spans_begin_and_end():
    found = tagged_words("pre-Oslo's unhappy", [(4, 8, "LOC"), (13, 18, "MOOD")])
    assert [("pre-Oslo's unhappy"[w.start : w.end], w.tag) for w in found] == [
        *(
            ("pre", "O"),
            ("-", "O"),
            ("Oslo", "B-LOC"),
            ("'", "O"),
            ("s", "O"),
            ("un", "O"),
            ("happy", "B-MOOD"),
        ),
    ]


# ---------------------------------------------------------------- words and tokens


@pytest.mark.parametrize(
    "kind",
    ["bpe(vocabulary=300)", "wordpiece(vocabulary=120)", "word", "character", "unigram(vocabulary=80)"],
)
def test_every_word_has_its_tag_at_its_first_token(kind):
    texts = ["Jill lives in Oslo .", "naïve café 你好 , unbelievable-things !", "a"]
    tokenizer = TOKENIZERS.build(kind).train(texts * 20, source="train")
    pick = random.Random(1)
    examples = [
        Example(t, words=tuple(Word(w.start, w.end, pick.choice("ABC")) for w in words_in(t))) for t in texts
    ]
    reader = LabelReader(TARGETS["tags"], tags_of, "t")
    encoding = ENCODINGS.build(
        "words", tokenizer=tokenizer, length=128, labels=("A", "B", "C"), reader=reader
    )
    for row, example in zip(encoding.rows(examples), examples, strict=True):
        (found,) = tokenizer.encode_with_offsets([example.text])
        inside = len(tokenizer.form.before)
        firsts = {}
        for place, (start, end) in enumerate(found.offsets, start=inside):
            held = [n for n, w in enumerate(example.words) if w.start < end and start < w.end]
            if held and row.words[place] >= 0:
                assert row.words[place] in held
                firsts.setdefault(row.words[place], place)
        labelled = {place: tag for place, tag in enumerate(row.tags) if tag != -100}
        assert labelled == {place: "ABC".index(example.words[n].tag) for n, place in firsts.items()}
        assert {*firsts} == {*range(len(example.words))}


def windowed(length, overlap=64, words=40, pieces=1):
    """The rows of a text of words of so many tokens each, and the text."""
    text = " ".join("abcdefgh"[n % 8] * pieces for n in range(words))
    held = tuple(Word(w.start, w.end, "OAB"[n % 3]) for n, w in enumerate(words_in(text)))
    tokenizer = TOKENIZERS.build("character").train([text], source="train")
    encoding = ENCODINGS.build(
        {"kind": "words", "overlap": overlap},
        tokenizer=tokenizer,
        length=length,
        labels=("A", "B", "O"),
        reader=LabelReader(TARGETS["tags"], tags_of, "t"),
    )
    return list(encoding.rows([Example(text, words=held)])), held, encoding


@pytest.mark.parametrize(
    ("length", "overlap", "pieces"), [(16, 64, 1), (21, 3, 1), (3, 0, 1), (24, 5, 3), (12, 0, 4), (6, 2, 9)]
)
def test_every_word_of_a_long_text_is_labelled_once_where_it_has_most_context(length, overlap, pieces):
    rows, words, encoding = windowed(length, overlap, pieces=pieces)
    assert len(rows) > 1 and encoding.cuts.lost == 0
    before = len(encoding.tokenizer.form.before)
    room = length - encoding.tokenizer.form.single_room
    step = room - min(overlap, room // 2)
    seen = {}
    for number, row in enumerate(rows):
        begin = number * step
        for place, tag in enumerate(row.tags):
            if tag != -100:
                assert row.words[place] not in seen, "a word is labelled in one window alone"
                seen[row.words[place]] = begin + place - before, number, tag
    assert {word: ("A", "B", "O")[tag] for word, (_, _, tag) in seen.items()} == {
        number: word.tag for number, word in enumerate(words)
    }
    total = words[-1].end  # a character is a token
    for word, (first, chosen, _) in seen.items():
        after = first + words[word].end - words[word].start
        assert first == words[word].start

        def context(number, first=first, after=after):
            begin, end = number * step, min(number * step + room, total)
            if not begin <= first < end:
                return (-1, -1)
            left = first - begin if begin else 10**9
            right = end - after if end < total else 10**9
            return min(after, end), min(left, right)

        assert context(chosen) == max(map(context, range(len(rows))))


def test_entities_and_counts_of_a_long_text_are_those_of_the_whole_text():
    """Windows that are scored in any order give what one long row gives."""
    labels = Labels("tags", ("B-x", "I-x", "O"), (1, 1, 1), 3)
    task = TASKS.build("tagging", vocabulary=vocabulary(), labels=labels)
    pick = np.random.default_rng(3)
    right, said = pick.integers(0, 3, (2, 50))
    whole, numbers = task.by_example(
        {
            "word": np.arange(50)[None],
            "word_tags": said[None],
            "word_truth": right[None],
            "nats": np.array([7.0]),
            "targets": np.array([50.0]),
        },
        np.array([4]),
    )
    assert numbers.tolist() == [4]
    names = [[labels.names[n] for n in one] for one in (right, said)]
    assert whole["entities"][0].tolist() == entity_counts(*names, ["x"]).tolist()
    assert whole["tag_counts"][0][:3].tolist() == [
        int(((right == said) & (right == n)).sum()) for n in range(3)
    ]
    cuts, order = [0, 13, 29, 50], [2, 0, 3, 1]  # and a text of two words between them
    rows = [np.arange(a, b) for a, b in itertools.pairwise(cuts)]
    columns = {name: np.full((4, 25), -1) for name in ("word", "word_tags", "word_truth")}
    for row, word in enumerate(rows):
        for name, values in (("word", np.arange(50)), ("word_tags", said), ("word_truth", right)):
            columns[name][row, : len(word)] = values[word]
    columns["word"][3, :2], columns["word_tags"][3, :2], columns["word_truth"][3, :2] = [0, 1], [0, 1], [0, 1]
    columns |= {"nats": np.array([1.0, 2, 4, 0.5]), "targets": np.array([13.0, 16, 21, 2])}
    parts, numbers = task.by_example(
        {name: column[order] for name, column in columns.items()}, np.array([4, 4, 4, 9])[order]
    )
    assert numbers.tolist() == [4, 9]
    for name, column in whole.items():
        assert parts[name][0].tolist() == column[0].tolist(), name
    assert parts["entities"][1].tolist() == [1, 1, 1] and parts["targets"].tolist() == [50, 2]


# ---------------------------------------------------------------- the loss


@pytest.mark.parametrize("pieces", ["first", "mean"])
def test_the_loss_is_that_of_each_word_written_out(pieces):
    labels = Labels("tags", ("B-x", "I-x", "O"), (1, 1, 1), 3)
    task = TASKS.build({"kind": "tagging", "pieces": pieces}, vocabulary=vocabulary(), labels=labels)
    model = (
        lab.encoder(
            vocabulary=SIZE, width=16, layers=1, heads=2, length=16, output="token_classification(classes=3)"
        )
        .double()
        .eval()
    )
    task.check(model)
    words = [[-1, 0, 0, 0, 1, -1], [-1, 0, 1, 1, -1]]
    tags = [[-100, 2, -100, -100, 0, -100], [-100, 1, 0, -100, -100]]
    prepared = task.prepare(batch([2, 7, 8, 9, 10, 3], [2, 11, 12, 13, 3], words=words, tags=tags), 0)
    with torch.no_grad():
        found = task.loss(model, prepared)
        hidden = model.trunk(prepared.ids, prepared.tokens)
        weight, bias = model.head.scores.weight, model.head.scores.bias
        for row in range(2):
            total = 0.0
            for place, tag in enumerate(tags[row]):
                if tag == -100:
                    continue
                own = [n for n, w in enumerate(words[row]) if w == words[row][place]]
                vector = hidden[row, own if pieces == "mean" else own[:1]].mean(0)
                total -= float((weight @ vector + bias).log_softmax(0)[tag])
            assert float(found.each[row]) == pytest.approx(total, abs=1e-12)
    assert int(found.count) == 4


def test_parts_of_a_step_add_up_to_the_whole():
    """Rows of 1 to 6 words: micro-batches give the gradient of one large batch, of the mean over words."""
    labels = Labels("tags", ("B-x", "I-x", "O"), (1, 1, 1), 3)
    task = TASKS.build("tagging", vocabulary=vocabulary(), labels=labels)
    model = lab.encoder(
        vocabulary=SIZE, width=16, layers=1, heads=2, length=16, output="token_classification(classes=3)"
    ).double()
    sizes = [1, 6, 2, 5, 3]
    ids = [[2, *range(7, 7 + size), 3] for size in sizes]
    words = [[-1, *range(size), -1] for size in sizes]
    tags = [[-100, *(n % 3 for n in range(size)), -100] for size in sizes]

    def gradient(*parts):
        model.zero_grad()
        prepared = [task.prepare(batch(*ids[a:b], words=words[a:b], tags=tags[a:b]), 0) for a, b in parts]
        loss, _ = backward(model, task, prepared)
        return loss, torch.cat([p.grad.flatten() for p in model.parameters()])

    whole, apart = gradient((0, 5)), gradient((0, 1), (1, 3), (3, 5))
    assert whole[0] == pytest.approx(apart[0], abs=1e-12)
    torch.testing.assert_close(whole[1], apart[1], rtol=0, atol=1e-12)
    with torch.no_grad():
        each = [
            task.loss(model, task.prepare(batch(ids[n], words=[words[n]], tags=[tags[n]]), 0))
            for n in range(5)
        ]
    assert whole[0] == pytest.approx(sum(float(one.total) for one in each) / sum(sizes), abs=1e-12)


# ---------------------------------------------------------------- from its files to its marked text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    changes = {
        "training": {
            "budget": {"steps": 120},
            "evaluate_every": 60,
            "optimizer": {"kind": "adamw", "learning_rate": 5e-3},
        }
    }
    return train(config(folder, **merged(for_task("tagging", folder), changes)), folder / "run")


def test_it_learns_and_is_sound(run):
    assert run.unsound == (), run.failures
    told = Trained.at(run.folder).evaluate("dev")
    assert next(iter(told["measures"])) == "entity_f1"
    f1 = told["measures"]["entity_f1"]
    assert f1["value"] > 0.95 and told["measures"]["invalid_tags"]["value"] < 0.02
    assert {one["name"] for one in told["classes"]} == {"WHO", "WHERE", "DOES"}
    assert told["majority"]["label"] == "B-WHO" or 0 < told["majority"]["share"] < 1


def test_it_marks_the_spans_of_a_text(run):
    text = "the old man sees a dog near the river ."
    (found,) = Trained.at(run.folder).predict([text])
    assert [(span.text, span.label) for span in found.spans] == [
        *(("the old man", "WHO"), ("sees", "DOES"), ("a dog", "WHO"), ("near the river", "WHERE")),
    ]
    assert all(text[span.start : span.end] == span.text for span in found.spans)
    shown = command("predict", run.folder, text).stdout
    assert "[the old man WHO] [sees DOES] [a dog WHO] [near the river WHERE] ." in " ".join(shown.split())
    assert answer("predict", run.folder, text)[0]["spans"][0]["label"] == "WHO"


def test_it_is_scored_on_a_file_and_shown(run, tmp_path):
    lines = tagged(run.folder.parent).read_text().split("\n\n")[:20]
    (tmp_path / "new.conll").write_text("\n\n".join(lines))
    shown = command("evaluate", run.folder, "--on", tmp_path / "new.conll")
    assert shown.exit_code == 0 and "entity F1" in shown.stdout and "WHERE" in shown.stdout, shown.output
    rows = [{"text": "a dog hears my sister ."}, {"text": "the cat finds the bird on the hill ."}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer("predict", run.folder, "--data", tmp_path / "new.jsonl", "--out", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert said[0]["prediction"] == ["a dog (WHO)", "hears (DOES)", "my sister (WHO)"]


def test_a_text_beyond_the_length_is_tagged_to_its_end(run):
    """Each word as in the one window that labels it."""
    sentence = "the old man sees a dog near the river . "
    opened = Trained.at(run.folder)
    text = sentence * 12
    (found,) = opened.predict([text])
    predictor = Predictor(opened)
    rows = list(predictor.encoding.rows([Example(text)]))
    assert len(rows) > 2 and predictor.cuts.lost == 0
    tags = {}
    for row in rows:
        with torch.no_grad():
            scores = opened.model.eval()(torch.tensor([row.ids]))[0]
        for place, word in enumerate(row.words):
            if word >= 0:
                tags.setdefault(word, opened.labels.names[int(scores[place].argmax())])
    words = words_in(text)
    assert sorted(tags) == list(range(len(words)))
    wanted = entities([tags[n] for n in range(len(words))])
    assert [(s.label, s.start, s.end) for s in found.spans] == [
        (label, words[first].start, words[after - 1].end) for label, first, after in wanted
    ]
    assert any(span.start > len(text) - len(sentence) for span in found.spans)


def test_a_tagger_that_finds_nothing_is_named(run):
    opened = Trained.at(run.folder)
    with torch.no_grad():
        opened.model.head.scores.weight.zero_()
        opened.model.head.scores.bias.fill_(0)
        opened.model.head.scores.bias[opened.labels.names.index("O")] = 9
    told = opened.evaluate("dev")
    outcomes = {one["check"]: one["outcome"] for one in told["checks"]}
    assert outcomes == {"majority": "fail", "collapse": "fail"} and told["learned"]["outcome"] == "warn"
    assert "most frequent tag" in told["collapsed"]


def test_embedded_statements_are_tagged_as_python_reads_them():
    seen = {}
    for example in CORPORA.build({"kind": "python_names", "packages": ["json"]}).read():
        words = [example.text[w.start : w.end] for w in example.words]
        assert " ".join(words) == example.text
        for label, first, after in entities(tags_of(example)):
            seen.setdefault(label, set()).add("".join(words[first:after]))
            before = words[first - 1] if first else ""
            if label in ("FUNCTION", "CLASS"):
                assert before == {"FUNCTION": "def", "CLASS": "class"}[label]
            if label == "CALL":
                assert words[after] == "("
    assert (
        {"loads"} <= seen["FUNCTION"]
        and "JSONEncoder" in seen["CLASS"]
        and seen["MODULE"]
        and "self" in seen["PARAMETER"]
    )
