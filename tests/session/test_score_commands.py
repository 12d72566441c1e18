"""`attnlab score` gives what the commands of sacrebleu and the ROUGE package print, to their last digit."""

import csv
import json
import subprocess
import sys

from tests.metrics.noisy_texts import written
from tests.session.commands import answer

ROUGES = ("rouge1", "rouge2", "rougeL")


def test_scores_of_two_files_are_those_of_the_packages_commands(tmp_path):
    examples = written(n=30)
    texts, references = tmp_path / "texts", tmp_path / "references"
    texts.write_text("".join(f"{text}\n" for text in examples["generated"]), encoding="utf-8")
    references.write_text("".join(f"{text}\n" for text in examples["reference"]), encoding="utf-8")
    measures = answer("score", "--hypotheses", texts, "--references", references)["systems"][0]["measures"]
    bleu = [sys.executable, "-m", "sacrebleu", str(references), "-i", str(texts), "-m", "bleu", "chrf"]
    said = subprocess.run([*bleu, "-w", "12"], capture_output=True, text=True, check=True).stdout
    theirs = json.loads(said)
    for name, score in zip(("bleu", "chrf"), theirs, strict=True):
        assert round(measures[name]["value"], 12) == score["score"], name
    rouge = [sys.executable, "-m", "rouge_score.rouge", f"--rouge_types={','.join(ROUGES)}"]
    files = [f"--target_filepattern={references}", f"--prediction_filepattern={texts}"]
    printed = tmp_path / "scores.csv"
    each = [*rouge, *files, "--aggregate=False", f"--output_filename={printed}"]
    subprocess.run(each, capture_output=True, check=True)
    rows = list(csv.DictReader(printed.read_text().splitlines()))
    for name in ROUGES:  # it prints six digits of each text
        mean = sum(float(row[f"{name}-F"]) for row in rows) / len(rows)
        assert abs(measures[name]["value"] - mean) <= 5e-7, name
