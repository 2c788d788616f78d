# shellcheck shell=bash
# Puts SGLang from an archive, and this repository, on the paths of the bash that sources it:
#
#     . benchmarks/gpu/unpack.sh ARCHIVE.tar.xz FOLDER
#
# For machines that reach no package index. The archive holds SGLang and what it imports, as a folder that goes on
# PYTHONPATH; PyTorch is the machine's own. The plugin is announced by an entry point, as an installation would do.
# Unpacks once: a FOLDER that is complete is used again.

_repository=$(pwd)
[ -d "$_repository/src/v14" ] || {
    echo "source this from the root of the repository" >&2
    return 1
}
if [ ! -f "$2/.complete" ]; then
    mkdir -p "$2/bin" "$2/sglang_v14-0.dist-info" && tar -xJf "$1" -C "$2" || return 1
    printf 'Metadata-Version: 2.1\nName: sglang-v14\nVersion: 0\n' > "$2/sglang_v14-0.dist-info/METADATA"
    printf '[sglang.srt.plugins]\nv14 = v14.engines.sglang.plugin:load\n' > "$2/sglang_v14-0.dist-info/entry_points.txt"
    printf '%s\n' '#!/usr/bin/env python3' 'import sys' 'from sglang.cli.main import main' \
        'if __name__ == "__main__":' '    sys.exit(main())' > "$2/bin/sglang"
    chmod +x "$2/bin/sglang"
    touch "$2/.complete"
fi
export PYTHONPATH="$2:$_repository/src:$_repository${PYTHONPATH:+:$PYTHONPATH}"
export PATH="$2/bin:$PATH"
