"""Pictures beside texts: matching, search and what heads look at, against plain calculations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from attnlab.config.files import load
from attnlab.config.values import ConfigError
from attnlab.data.corpora.shapes import Shapes
from attnlab.data.images.decoding import pixels_of, png_of
from attnlab.data.images.picture import Picture
from attnlab.evaluation.retrieval import chance_scores
from attnlab.metrics.metric import Examples
from attnlab.model.heads.sentence import Sentence
from attnlab.model.tokens import Tokens
from attnlab.session.embedding import Embedder
from attnlab.session.searching import Searcher
from attnlab.session.session import Session, draft_settings
from attnlab.session.trained import Trained
from attnlab.studies.builtin import builtin
from attnlab.studies.builtin.fusion import FUSIONS
from attnlab.studies.matching import parameters
from attnlab.studies.resolved import resolve
from attnlab.tasks.similarity import Similarity
from attnlab.tasks.task import Prepared

FEW = {"data.corpus.examples": 64}


def trained_of(name, folder, **changes):
    """A model as it is before its first step."""
    session = Session(load(name, set={**FEW, **changes}))
    config, dataset = session.config, session.dataset
    return Trained(
        config, folder, tokenizer=dataset.tokenizer, labels=dataset.labels, model=session.model.eval()
    )


def batch_of(trained, count=8):
    rows = trained.dataset.rows("dev")
    from attnlab.data.batch import collate

    batch = collate(rows, list(np.arange(count)[:, None]), pad=trained.tokenizer.pad)
    return trained.task.prepare(batch, 0)


@pytest.mark.parametrize("arm", FUSIONS)
def test_an_answer_depends_on_the_picture_unless_they_never_meet(arm, tmp_path):
    """The class token is of the text: without fusion it is the same whatever picture stands beside it."""
    trained = trained_of("image-matching-mini", tmp_path, **{"model.fusion": FUSIONS[arm][0]})
    prepared = batch_of(trained)
    with torch.no_grad():
        scores = trained.model(**prepared.inputs)
        others = trained.model(**replace(prepared, vectors=prepared.vectors.roll(1, 0)).inputs)
    assert torch.equal(scores, others) == (arm == "never")


def test_matching_says_nothing_by_text_or_picture_alone():
    """A caption is as often true as false, and so is a picture: each of a change has its reverse."""
    examples = list(Shapes(task="matching", examples=6000).read("train"))
    by_caption = {}
    for example in examples:
        by_caption.setdefault(example.text, []).append(example.label == "true")
    often = [labels for labels in by_caption.values() if len(labels) >= 4]
    shares = np.array([np.mean(labels) for labels in often])
    spread = np.mean([0.25 / len(labels) for labels in often]) ** 0.5
    assert abs(shares.mean() - 0.5) < 0.03 and shares.std() == pytest.approx(spread, rel=0.15)


def test_arms_of_the_study_have_equally_many_parameters():
    resolved = resolve(builtin("fusion").quickly())
    sizes = {arm: parameters(draft_settings(config)) for arm, config in resolved.configs.items()}
    assert set(sizes) == set(FUSIONS) and max(sizes.values()) / min(sizes.values()) < 1.01, sizes


def test_the_symmetric_loss_is_the_mean_of_both_directions():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(4, 2, 6, generator=generator).double(), dim=-1)
    keys = torch.tensor([0, 1, 0, 3])  # the first and the third text are equal
    prepared = Prepared(ids=torch.zeros(4, 1).long(), targets=keys, tokens=Tokens.of(1), of_examples=True)
    task = Similarity(vocabulary=None, labels=None, objective="symmetric", temperature=0.1)
    loss = task.head_loss(Sentence(), vectors, prepared, training=True)
    total = 0.0
    for line in range(4):
        among = [n for n in range(4) if n == line or keys[n] != keys[line]]
        for side in (0, 1):
            scores = [float(vectors[line, side] @ vectors[n, 1 - side]) / 0.1 for n in among]
            total += (np.log(np.exp(scores).sum()) - scores[among.index(line)]) / 2
    assert float(loss.total) == pytest.approx(total, rel=1e-9)
    cosines = vectors[:, 0] @ vectors[:, 1].T
    rows = [{"targets": keys, "line": n, "from_second": cosines[:, n]} for n in range(4)]
    plain = sum(float(task.target.plain_loss(cosines[n], row)) for n, row in enumerate(rows))
    assert plain == pytest.approx(total, rel=1e-9)


def test_chance_is_the_mean_over_all_ranks():
    scores = chance_scores(40, Examples({"rank": np.array([1, 3])}))
    assert scores["recall_at_1"].chance == 1 / 40 and scores["recall_at_10"].chance == 10 / 40
    assert scores["reciprocal_rank"].chance == pytest.approx(sum(1 / r for r in range(1, 41)) / 40)
    assert scores["recall_at_1"].model.value == 0.5 and scores["recall_at_1"].bm25 is None


# ---------------------------------------------------------------- search
@pytest.fixture(scope="module")
def searching(tmp_path_factory):
    return trained_of("image-search-mini", tmp_path_factory.mktemp("search"))


def pictures_in(folder, count=6):
    folder.mkdir()
    for number, example in enumerate(Shapes(task="caption", examples=64).read("train")):
        if number < count:
            (folder / f"{number}.png").write_bytes(png_of(pixels_of(example.image, 32)))
    return sorted(folder.iterdir())


def test_pictures_are_found_by_the_cosine_of_each_read_alone(searching, tmp_path):
    files = pictures_in(tmp_path / "pictures")
    (tmp_path / "pictures" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "pictures" / "notes.txt").write_text("a red circle")
    embedder = Embedder.of(searching)
    searcher = Searcher.of(embedder, tmp_path / "pictures", index=tmp_path / "index")
    hits = searcher.search("a red circle left of a blue square", top=6)
    query = embedder(["a red circle left of a blue square"])[0].numpy()
    alone = {str(f): float(embedder.picture_vectors([Picture(f)])[0] @ query) for f in files}
    assert [hit.file for hit in hits] == sorted(alone, key=lambda name: -alone[name])
    assert [hit.score for hit in hits] == pytest.approx(sorted(alone.values(), reverse=True), abs=1e-5)
    (skipped,) = searcher.update.skipped
    assert "broken.png" in str(skipped) and "no picture" in str(skipped)


def test_a_picture_that_changed_under_its_name_is_embedded_again(searching, tmp_path):
    first, other, *_ = pictures_in(tmp_path / "pictures")
    embedder = Embedder.of(searching)
    Searcher.of(embedder, tmp_path / "pictures", index=tmp_path / "index")
    content = first.read_bytes()
    first.write_bytes(png_of(255 - pixels_of(Picture(other), 32)))
    searcher = Searcher.of(embedder, tmp_path / "pictures", index=tmp_path / "index")
    assert searcher.update.embedded == 1 and first.read_bytes() != content
    query = embedder(["a red circle"])[0].numpy()
    scores = {hit.file: hit.score for hit in searcher.search("a red circle", top=6)}
    assert scores[str(first)] == pytest.approx(
        float(embedder.picture_vectors([Picture(first)])[0] @ query), abs=1e-5
    )


# ---------------------------------------------------------------- looking inside
@pytest.mark.parametrize("fusion", ["early", "bottleneck(tokens=4)"])
def test_weights_on_the_picture_are_those_of_its_patches(fusion, tmp_path):
    trained = trained_of("image-matching-mini", tmp_path, **{"model.fusion": fusion})
    (file, *_) = pictures_in(tmp_path / "pictures", 1)
    looks = trained.picture_attention(file, "a red circle left of a blue square")
    assert sum(number > 0 for number in looks.patch) == 16 == looks.side**2
    from attnlab.model.capture import capture
    from attnlab.model.model import hidden_states
    from attnlab.session.picture_reading import picture_row

    row = picture_row(trained, file, "a red circle left of a blue square").row
    with torch.no_grad(), capture(trained.model, "layers.*.attention.weights") as seen:
        trained.model(**row.inputs, objective=hidden_states)
    weights = [layer[0] for layer in seen.values()]
    before = weights[0].shape[-1] - len(looks.patch)
    first = looks.patch.index(1)
    for head in looks.maps.heads:
        own = weights[head.layer][head.name.number][before:, before + first : before + first + 16]
        assert torch.allclose(looks.over_picture(head), own, atol=1e-6)
    page = looks.html()
    assert page.count("data:image/png;base64,") == 8 + len(looks.read.readers) and "<rect" in page


def test_wrong_use_is_answered(tmp_path):
    trained = trained_of("image-matching-mini", tmp_path)
    (file, *_) = pictures_in(tmp_path / "pictures", 1)
    with pytest.raises(ConfigError, match="give both: --image FILE --text TEXT"):
        trained.picture_attention(file)
    with pytest.raises(ConfigError, match="each by itself; leave out --text, or --image"):
        trained_of("image-search-mini", tmp_path).picture_attention(file, "a text")
    with pytest.raises(ConfigError, match="There is no file"):
        trained.picture_attention(tmp_path / "none.png", "a text")
    with pytest.raises(ConfigError, match="image alone"):
        Session(load("image-search-mini", set={**FEW, "model.inputs": "image(size=32, patch=8)"})).model  # noqa: B018
