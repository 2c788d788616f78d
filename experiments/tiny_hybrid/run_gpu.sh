#!/usr/bin/env bash
# Trains both models at once on one GPU, and collects what came of it. From the root of the repository:
#   experiments/tiny_hybrid/run_gpu.sh start [MINUTES]   in the background; goes on when the shell ends
#   experiments/tiny_hybrid/run_gpu.sh status            the last lines of both logs
#   experiments/tiny_hybrid/run_gpu.sh collect FOLDER    one archive per model and its log
#   experiments/tiny_hybrid/run_gpu.sh resume [MINUTES]  on from the last state; MINUTES in all
set -euo pipefail

root=/tmp/tiny_hybrid
archs="qwen3_5 nemotron_h"
here=$(cd "$(dirname "$0")/../.." && pwd)

begin() { # MINUTES [resume]
    mkdir -p "$root"
    cd "$here"
    [ -f "$root/tokenizer/tokenizer.json" ] || python3 -c '
import sys; from pathlib import Path
from experiments.tiny_hybrid.tokenizer import saved_tokenizer
saved_tokenizer(Path(sys.argv[1]))' "$root/tokenizer"
    for arch in $archs; do
        mkdir -p "$root/$arch"
        cp "$root"/tokenizer/* "$root/$arch/"
        more=""
        [ "${2:-}" = resume ] && more="--resume $root/$arch.state.pt"
        # Every worker and the loop itself are single threads.
        OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false TORCHINDUCTOR_COMPILE_THREADS=6 setsid nohup \
            python3 -m experiments.tiny_hybrid.train --arch "$arch" --minutes "$1" --out "$root/$arch" --workers 6 $more \
            </dev/null >"$root/$arch.out" 2>&1 &
        echo "$arch: process $!"
    done
}

case "${1:-}" in
start) begin "${2:-18}" ;;
resume) begin "${2:-18}" resume ;;
status)
    for arch in $archs; do
        echo "== $arch"
        tail -n 4 "$root/$arch.out"
    done
    ;;
collect)
    mkdir -p "$2"
    for arch in $archs; do
        tar -C "$root" -cf "$2/$arch.tar" --exclude '*.part' "$arch"
        cp "$root/$arch.out" "$2/$arch.out.txt"
    done
    ;;
*)
    sed -n '2,6p' "$0"
    exit 2
    ;;
esac
