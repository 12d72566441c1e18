"""Fine-tune a pretrained model on a csv of yours, and answer requests with the result.

python fine_tune_and_serve.py reviews.csv       # columns text and label
curl -d '["a fine film"]' http://localhost:8000
"""

import csv
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import attnlab as lab

EPOCHS, PORT = 4, 8000
ROWS = Path(sys.argv[1] if len(sys.argv) > 1 else "reviews.csv")
RUN = Path("runs/reviews")


def invented_rows():
    """Rows to begin with: replace them by your own."""
    for number in range(120):
        yield f"a {('fine', 'moving', 'funny')[number % 3]} film, take {number}", "good"
        yield f"a {('dull', 'long', 'silly')[number % 3]} film, take {number}", "bad"


class Answers(BaseHTTPRequestHandler):
    model = None

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = [{"label": p.answer, "probability": round(p.confidence, 3)} for p in self.model.predict(texts)]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())


def serve(model, port=PORT):
    Answers.model = model
    HTTPServer(("localhost", port), Answers).serve_forever()


if __name__ == "__main__":
    if not ROWS.exists():
        with ROWS.open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *invented_rows()])
    if not RUN.exists():
        changes = {"training.budget": {"epochs": EPOCHS}}
        tuned = lab.adapt("minilm", "head", data=ROWS, text="text", label="label", set=changes, out=RUN)
        print(tuned.evaluate())  # accuracy with its interval, beside the most frequent class
    serve(lab.open(RUN))
