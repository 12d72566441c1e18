#!/bin/sh
# Every method of adaptation on one table of labelled texts: a run for each, and its scores on dev.
#
# usage: sh docs/methods.sh RUNS START --data FILE --dev FILE [more options of attnlab adapt, such as --text, --label]
# Runs that were interrupted continue. Epochs of a head alone cost next to nothing, so it has 20; the others have EPOCHS
# (1 where that is not set). METHODS names others than all.
runs=$1 start=$2
shift 2
for adapter in ${METHODS:-head "top(layers=2)" full "lora(rank=8)" bitfit "prefix(tokens=16)" "prompt(tokens=16)"}; do
  folder=$runs/${adapter%%(*} epochs=${EPOCHS:-1} resume=
  [ "$adapter" = head ] && epochs=20
  [ -e "$folder/run.json" ] && resume=--resume
  attnlab adapt "$start" --adapter "$adapter" --set "training.budget.epochs=$epochs" --out "$folder" $resume "$@"
  attnlab evaluate "$folder" --json > "$folder/dev.json"
done
