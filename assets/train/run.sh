#!/bin/bash
# Every step, from the teacher to the model card, one after the other. A step that is done is not done again, one that was
# interrupted goes on (generate, train) or starts anew. Steps print what they do; their times stand in the log.
#
# usage: run.sh WORK TEACHER.gguf FOLDER
#        WORK gets all that lies between; FOLDER becomes the model. The variables below change a step's options.
set -euo pipefail
work=$1 teacher=$2 folder=$3
here=$(dirname "$(readlink -f "$0")")
: "${GENERATE:=--minutes 7.5}" "${SHAPES:=wide deep}" "${TRY:=--minutes 0.75}" "${TRAIN:=--minutes 9}" "${EVALUATE:=}"
export TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
mkdir -p "$work"

step() {
    local name=$1
    shift
    [ -e "$work/$name.done" ] && return
    echo "== $name, $(date +%T)"
    python3 "$here/$@"
    touch "$work/$name.done"
}

# The shape whose short run has the least loss.
best() {
    python3 - "$work" $SHAPES <<'END'
import json, sys
losses = {shape: json.load(open(f"{sys.argv[1]}/try-{shape}/summary.json"))["held_loss"] for shape in sys.argv[2:]}
print(min(losses, key=losses.get))
END
}

# shellcheck disable=SC2086
{
    step generate generate.py "$work" "$teacher" $GENERATE
    step filter filter.py "$work"
    step tokenizer tokenizer.py "$work"
    step pack pack.py "$work"
    for shape in $SHAPES; do
        step "try-$shape" train.py "$work" --shape "$shape" $TRY --out "try-$shape"
    done
    step train train.py "$work" --shape "$(best)" $TRAIN
    step export export.py "$work" "$folder"
    step evaluate evaluate.py "$work" "$folder" "$teacher" $EVALUATE
    step card card.py "$work" "$folder"
}
echo "== whole, $(date +%T)"
