#!/bin/sh
# A model tuned to answer questions, or to say that there is no answer, and its scores on dev with their intervals.
#
# usage: sh docs/answering-squad.sh RUN START --data FILE --dev FILE [more options of attnlab adapt]
# as in  sh docs/answering-squad.sh runs/squad minilm --data squad2/train.json --dev squad2/dev.json
# A run that was interrupted continues. RUN/dev.json holds F1 and exact match for all questions and for those with and
# without an answer, F1 over the thresholds, and the baselines.
run=$1 start=$2
shift 2
resume=
[ -e "$run/run.json" ] && resume=--resume
attnlab adapt "$start" --task answering --out "$run" $resume \
  --set data.batching.batch_size=16 --set training.checkpoint_every=100 "$@"
attnlab evaluate "$run" --json > "$run/dev.json"
