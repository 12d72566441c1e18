"""Pictures from tables, folders and the embedded corpus, decoded by rules and cut into patches."""

import csv
import io
import itertools
import json
from collections import Counter

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest
from PIL import Image

from attnlab.config.pictures import PictureGrid
from attnlab.config.schema import DataSettings
from attnlab.config.values import Choice
from attnlab.data.batch import collate
from attnlab.data.corpora import records
from attnlab.data.corpora.own_files import Files
from attnlab.data.corpora.shapes import HELD_OUT, Shapes
from attnlab.data.dataset import Dataset
from attnlab.data.errors import DataError
from attnlab.data.images.decoding import PictureError, facts_of, opened, pixels_of
from attnlab.data.images.hashing import difference_hashes, near_pairs
from attnlab.data.images.patches import patches_of, picture_of_patches
from attnlab.data.images.picture import Picture
from attnlab.data.splits import Splits, trace


def stored(image: Image.Image, form: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def noise(seed: int, size: int = 8) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8), "RGB")


# ---------------------------------------------------------------- decoding
def test_patches_are_those_of_a_loop():
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)
    made = patches_of(pixels, 4)
    assert made.shape == (9, 48)
    for row in range(3):
        for column in range(3):
            numbers = []
            for y in range(4):
                for x in range(4):
                    numbers += [int(value) for value in pixels[4 * row + y, 4 * column + x]]
            assert made[3 * row + column].tolist() == numbers
    assert np.array_equal(picture_of_patches(made, 4), pixels)


def test_every_form_comes_to_the_same_colours_on_white():
    flat = Image.new("RGB", (4, 4), (200, 40, 90))
    palette = flat.quantize(4)
    forms = {"RGB": stored(flat), "palette": stored(palette), "BMP": stored(flat, "BMP")}
    for name, content in forms.items():
        assert pixels_of(Picture(content), 4)[0, 0].tolist() == [200, 40, 90], name
    grey = stored(Image.new("L", (4, 4), 77))
    assert pixels_of(Picture(grey), 4)[0, 0].tolist() == [77, 77, 77]
    deep = stored(Image.fromarray(np.full((4, 4), 128 * 257, np.uint16)))
    assert pixels_of(Picture(deep), 4)[0, 0].tolist() == [128, 128, 128]
    ink = stored(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF")
    assert pixels_of(Picture(ink), 4)[0, 0].tolist() == [255, 0, 0]


def test_what_is_transparent_is_laid_on_white_and_told():
    half = Image.new("RGBA", (2, 2), (0, 0, 0, 0))
    half.putpixel((0, 0), (255, 0, 0, 255))
    picture = Picture(stored(half))
    assert pixels_of(picture, 2).tolist() == [[[255, 0, 0], [255] * 3], [[255] * 3, [255] * 3]]
    assert facts_of(picture).transparent and not facts_of(Picture(stored(noise(0)))).transparent
    seen = Image.new("P", (1, 1), 0)
    seen.putpalette([10, 20, 30] * 256)
    content = stored(seen, transparency=0)
    assert facts_of(Picture(content)).transparent and pixels_of(Picture(content), 1).tolist() == [[[255] * 3]]


def test_the_first_frame_of_an_animation_is_read_and_told():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 0, 255))]
    content = stored(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert facts_of(Picture(content)).frames == 2
    assert pixels_of(Picture(content), 4)[0, 0].tolist() == [255, 0, 0]


def test_how_a_picture_becomes_square():
    wide = Image.new("RGB", (8, 4), (0, 0, 0))
    wide.paste((255, 0, 0), (4, 0, 8, 4))
    picture = Picture(stored(wide))
    padded = pixels_of(picture, 8)
    assert (padded[:2] == 255).all() and (padded[-2:] == 255).all() and not padded[3:5, :3].any()
    assert not (pixels_of(picture, 8, "crop") == 255).all(2).any()
    stretched = pixels_of(picture, 4, "stretch")
    assert not stretched[:, 0].any() and stretched[:, -1].tolist() == [[255, 0, 0]] * 4


def test_broken_and_huge_pictures_are_refused_with_the_rule(monkeypatch):
    whole = stored(noise(1, 64))
    with pytest.raises(PictureError, match="its 5 bytes are no picture that Pillow knows"):
        facts_of(Picture(b"hello"))
    facts_of(Picture(whole[: len(whole) // 2]))  # its header is sound
    with pytest.raises(PictureError, match="pixels cannot be decoded"):
        pixels_of(Picture(whole[: len(whole) // 2]), 8)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 64 - 1)
    with pytest.raises(PictureError, match=r"64 × 64 pixels, and the limit .* is 4,095 in all .*; make it"):
        facts_of(Picture(whole))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # more than twice: Pillow itself refuses
    with pytest.raises(PictureError, match="too large"):
        facts_of(Picture(whole))


# ---------------------------------------------------------------- files
def table(folder, rows, name="train.parquet"):
    folder.mkdir(exist_ok=True, parents=True)
    arrow.parquet.write_table(arrow.Table.from_pylist(rows), folder / name)
    return folder / name


def test_a_parquet_column_of_bytes_and_path(tmp_path):
    rows = [
        {"image": {"bytes": stored(noise(n)), "path": f"{n}.png"}, "text": f"noise {n}", "label": "ab"[n % 2]}
        for n in range(4)
    ]
    file = table(tmp_path, rows)
    examples = list(Files(path=str(file)).read())
    assert [e.text for e in examples] == [f"noise {n}" for n in range(4)]
    assert [e.image.name for e in examples] == [f"{n}.png" for n in range(4)]
    assert all(np.array_equal(pixels_of(e.image, 8), np.asarray(noise(n))) for n, e in enumerate(examples))


def test_a_folder_with_metadata_and_one_with_classes(tmp_path):
    for n in range(4):
        (tmp_path / "listed").mkdir(exist_ok=True)
        noise(n).save(tmp_path / "listed" / f"{n}.png")
        (tmp_path / "classes" / "train" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        noise(n).save(tmp_path / "classes" / "train" / "ab"[n % 2] / f"{n}.png")
    (tmp_path / "classes" / "val" / "a").mkdir(parents=True)
    noise(9).save(tmp_path / "classes" / "val" / "a" / "9.png")
    with (tmp_path / "listed" / "metadata.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["file_name", "label"], *([f"{n}.png", "xy"[n // 2]] for n in range(4))]
        )
    listed = list(Files(path=str(tmp_path / "listed")).read())
    assert [e.label for e in listed] == ["x", "x", "y", "y"] and {e.text for e in listed} == {""}
    classes = Files(path=str(tmp_path / "classes"))
    assert classes.given == ("train", "dev")
    assert sorted((e.image.name, e.label) for e in classes.read()) == [
        ("0.png", "a"),
        ("1.png", "b"),
        ("2.png", "a"),
        ("3.png", "b"),
    ]
    assert [e.label for e in classes.read("dev")] == ["a"]
    (tmp_path / "listed" / "metadata.csv").unlink()
    lines = [json.dumps({"file_name": f"{n}.png", "text": f"noise {n}"}) for n in range(4)]
    (tmp_path / "listed" / "metadata.jsonl").write_text("\n".join(lines))
    assert [e.text for e in Files(path=str(tmp_path / "listed")).read()] == [f"noise {n}" for n in range(4)]


def test_another_picture_or_another_folder_is_another_corpus(tmp_path):
    for n in range(2):
        (tmp_path / "pictures" / "ab"[n]).mkdir(parents=True)
        noise(n).save(tmp_path / "pictures" / "ab"[n] / f"{n}.png")
    marks = [Files(path=str(tmp_path / "pictures")).fingerprint()]
    noise(7).save(tmp_path / "pictures" / "a" / "0.png")
    marks.append(Files(path=str(tmp_path / "pictures")).fingerprint())
    (tmp_path / "pictures" / "a").rename(tmp_path / "pictures" / "c")
    marks.append(Files(path=str(tmp_path / "pictures")).fingerprint())
    (tmp_path / "list.csv").write_text("image,label\npictures/c/0.png,x\n")
    marks.append(Files(path=str(tmp_path / "list.csv")).fingerprint())
    noise(8).save(tmp_path / "pictures" / "c" / "0.png")
    marks.append(Files(path=str(tmp_path / "list.csv")).fingerprint())
    assert len(set(marks)) == 5


def test_a_column_that_only_sounds_like_a_picture_is_left_alone(tmp_path):
    (tmp_path / "rows.csv").write_text("text,image,label\nhello,a cat,x\nthere,a dog,y\n")
    examples = list(Files(path=str(tmp_path / "rows.csv")).read())
    assert [e.image for e in examples] == [None, None]
    with pytest.raises(DataError, match=r'"image" names a cat, and there is no such file'):
        list(Files(path=str(tmp_path / "rows.csv"), image="image").read())


def test_broken_pictures_are_counted_and_may_be_skipped(tmp_path):
    whole = stored(noise(1, 64))
    contents = [stored(noise(0)), b"hello", whole[: len(whole) // 2], b""]
    file = table(tmp_path, [{"image": {"bytes": c, "path": None}, "label": "x"} for c in contents])
    with pytest.raises(DataError, match=r"2 of 4 rows .*(?s:.)*row 2.*no picture(?s:.)*row 4.*0 bytes"):
        list(Files(path=str(file)).read())
    kept = Files(path=str(file), skip_bad=True)
    assert len(list(kept.read())) == 1 and kept.skipped == 3
    assert len(list(kept.read())) == 1 and kept.skipped == 3  # whenever the table is read again


def test_pictures_of_a_sound_table_are_looked_at_once(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(records, "opened", lambda picture: looked.append(opened(picture)))
    file = table(tmp_path, [{"image": {"bytes": stored(noise(n)), "path": None}} for n in range(3)])
    corpus = Files(path=str(file))
    next(iter(corpus.read()))
    assert len(looked) == 1  # a reading that was given up says nothing of the others
    first, second = list(corpus.read()), list(corpus.read())
    assert len(looked) == 4 and first == second


def settings(path, **others):
    given = {"corpus": Choice("files", {"path": str(path)}), "tokenizer": Choice("character")}
    return DataSettings(**given, encoding=Choice("image"), length=6, dev_share=0.0, test_share=0.0, **others)


def test_a_picture_that_breaks_while_it_is_decoded_is_named(tmp_path):
    whole = stored(noise(1, 64))
    contents = [stored(noise(0)), whole[: len(whole) // 2]]
    rows = [{"image": {"bytes": c, "path": None}, "label": "xy"[n]} for n, c in enumerate(contents)]
    file = table(tmp_path, rows)
    with pytest.raises(
        DataError, match=r"1 of 2 pictures cannot be used:(?s:.)*row 2: its pixels(?s:.)*--skip-bad"
    ):
        Dataset(settings(file), pictures=PictureGrid(8, 4)).rows("train")


# ---------------------------------------------------------------- rows and batches
@pytest.mark.parametrize("encoding", ["single", "image_text"])
@pytest.mark.parametrize("columns", [{}, {"group": "text"}])
def test_pictures_without_texts_are_not_read_as_empty_texts(tmp_path, encoding, columns):
    """A column that is named for one part, such as the group, is no other part's."""
    rows = [{"image": stored(noise(n)), "label": "ab"[n % 2], "text": f"picture {n}"} for n in range(12)]
    given = rows if columns else [{key: row[key] for key in ("image", "label")} for row in rows]
    corpus = Choice("files", {"path": str(table(tmp_path, given)), **columns})
    settings = DataSettings(corpus=corpus, encoding=Choice(encoding), tokenizer=Choice("word"), length=16)
    with pytest.raises(DataError, match="reads texts, and the pictures of these rows have none"):
        Dataset(settings, pictures=PictureGrid(8, 4)).rows("train")


def test_rows_hold_bytes_and_batches_numbers_from_minus_one_to_one(tmp_path):
    rows = [
        {"image": {"bytes": stored(noise(n)), "path": None}, "text": "ab"[n], "label": "xy"[n]}
        for n in range(2)
    ]
    file = table(tmp_path, rows)
    alone = Dataset(settings(file), pictures=PictureGrid(8, 4)).rows("train")
    assert alone.ragged("pixels", 1).dtype == np.uint8
    assert alone.ragged("patch", 1).tolist() == [0, 1, 2, 3, 4, 0]
    both = Dataset(
        DataSettings(
            corpus=Choice("files", {"path": str(file)}),
            tokenizer=Choice("character"),
            encoding=Choice("image_text"),
            length=9,
            dev_share=0.0,
            test_share=0.0,
        ),
        pictures=PictureGrid(8, 4),
        cache=tmp_path / "cache",
    )
    batch = collate(both.rows("train"), [np.array([0]), np.array([1])], pad=both.tokenizer.pad)
    assert batch.vectors.shape == (2, 8, 48) and not batch.vectors[:, [0, 5, 6, 7]].any()
    wanted = patches_of(np.asarray(noise(1)), 4).astype(np.float64) / 127.5 - 1
    np.testing.assert_allclose(batch.vectors[1, 1:5].numpy(), wanted, atol=1e-6)
    left = collate(both.rows("train"), [np.array([0])], pad=0, side="left")
    np.testing.assert_allclose(left.vectors[0, -7:-3].numpy(), batch.vectors[0, 1:5].numpy())


def test_other_sizes_and_fits_are_other_rows(tmp_path):
    file = table(
        tmp_path, [{"image": {"bytes": stored(noise(n)), "path": None}, "label": "xy"[n]} for n in range(2)]
    )
    marks = {
        Dataset(settings(file), pictures=grid).fingerprint("train")
        for grid in (PictureGrid(8, 4), PictureGrid(16, 8), PictureGrid(8, 8))
    }
    assert len(marks) == 3


def test_a_picture_is_on_one_side_whatever_is_said_of_it(tmp_path):
    contents = [stored(noise(n)) for n in range(40)]
    rows = [
        {"image": {"bytes": c, "path": None}, "text": f"{word} {n}"}
        for n, c in enumerate(contents)
        for word in ("one", "two")
    ]
    splits = Splits(Files(path=str(table(tmp_path, rows))), 0.3, 0.0, 0)
    sides = {name: {e.image.digest for e in splits.read(name)} for name in ("train", "dev")}
    assert sides["train"] and sides["dev"] and not sides["train"] & sides["dev"]
    assert len({trace(e) for e in splits.read("train")}) == len(list(splits.read("train")))


# ---------------------------------------------------------------- hashes
def test_hashes_find_a_picture_that_was_stored_again_and_no_other():
    base = [
        Image.fromarray(np.kron(np.asarray(noise(n, 8)), np.ones((4, 4, 1), np.uint8))) for n in range(20)
    ]
    again = [
        Image.open(io.BytesIO(stored(image, "JPEG", quality=95, subsampling=0))).convert("RGB")
        for image in base[:5]
    ]
    first = np.stack([np.asarray(image) for image in base])
    second = np.stack([np.asarray(image) for image in [*again, *(noise(n, 32) for n in range(100, 105))]])
    assert near_pairs(first, second).tolist() == [[n, n] for n in range(5)]
    assert len({tuple(one) for one in difference_hashes(first).tolist()}) == 20


def test_hashes_are_those_of_a_loop():
    pixels = np.random.default_rng(3).integers(0, 256, (1, 18, 18, 3), np.uint8)
    hashes = difference_hashes(pixels)[0]
    for colour in range(3):
        bits = 0
        for row in range(8):
            rows = slice(row * 18 // 8, (row + 1) * 18 // 8)
            means = [pixels[0, rows, c * 2 : c * 2 + 2, colour].mean() for c in range(9)]
            for column in range(8):
                bits |= int(means[column] > means[column + 1] + 1e-6) << (row * 8 + column)
        assert int(hashes[colour]) == bits


# ---------------------------------------------------------------- shapes
def test_held_out_colours_and_shapes_are_in_dev_alone():
    corpus = Shapes(task="caption", examples=400)
    for split in ("train", "dev", "test"):
        for example in corpus.read(split):
            words = example.target.split()
            shown = set(itertools.pairwise(words)) & HELD_OUT
            assert bool(shown) == (split != "train")
    seen = {word for example in corpus.read("train") for word in example.target.split()}
    assert {word for pair in HELD_OUT for word in pair} <= seen


def test_neither_picture_nor_caption_alone_tells_whether_they_match():
    """Every word is as frequent in true as in false captions, and false ones differ in one word."""
    examples = list(Shapes(task="matching", examples=6000).read("train"))
    captions = list(Shapes(task="caption", examples=6000).read("train"))
    labels = Counter(example.label for example in examples)
    assert abs(labels["true"] - 3000) < 4 * 39
    for word in ("red", "black", "circle", "cross", "above"):
        true, false = (
            np.mean([word in e.text for e in examples if e.label == label]) for label in ("true", "false")
        )
        assert abs(true - false) < 4 * np.sqrt(2 * 0.25 / 3000), word
    for example, right in zip(examples, captions, strict=True):
        assert example.image == right.image
        differing = words_apart(example.text, right.target)
        assert differing == 0 if example.label == "true" else differing == 1


def words_apart(one: str, other: str) -> int:
    one, other = (text.replace(" of", "-of").split() for text in (one, other))
    return sum(a != b for a, b in zip(one, other, strict=True))


def test_the_picture_shows_what_its_caption_says():
    colours = {"red": (214, 39, 40), "blue": (31, 90, 200), "black": (30, 30, 30), "green": (44, 160, 44)}
    looked = 0
    for example in Shapes(task="caption", examples=300).read("train"):
        _, one, _, *relation, _, other, _ = example.target.split()
        if not {one, other} <= colours.keys() or one == other:
            continue
        pixels = pixels_of(example.image, 32).astype(int)
        centres = [np.argwhere(abs(pixels - colours[c]).sum(2) == 0).mean(0) for c in (one, other)]
        down, right = centres[1] - centres[0]
        told = {"left": right > 4, "right": right < -4, "above": down > 4, "below": down < -4}
        assert told[relation[0]], example.target
        looked += 1
    assert looked > 50
