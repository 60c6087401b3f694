#!/usr/bin/env bash
# The demo: the sample images into every format, inspected and read back. Usage: demo.sh FASTDATA
set -euo pipefail
cd "$(dirname "$0")/.."
fastdata=${1:-fastdata}
images=sample_data/images
out=demo
rm -rf "$out"
mkdir "$out"

run() {
    if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
        printf '\n\033[1m$ fastdata %s\033[0m\n' "$*"
    else
        printf '\n$ fastdata %s\n' "$*"
    fi
    "$fastdata" "$@"
}

run formats
run convert "$images" "$out/pixels.zarr" --chunk 1000 --codec lz4
run convert "$images" "$out/pixels.raw"
run convert "$images" "$out/pixels.h5"
run convert "$images" "$out/files.lmdb"
run convert "$images" "$out/files.tar"
run convert "$images" "$out/train-%06d.tar" --shard-samples 25
for dataset in pixels.zarr pixels.raw pixels.h5 files.lmdb files.tar train-%06d.tar; do
    run inspect "$out/$dataset"
done

run convert "$out/files.tar" "$out/back" --to tree
diff -r "$images" "$out/back" && echo "every file came back byte for byte"
run convert sample_data/bad "$out/bad.zarr" --max-bad 100%
run inspect "$out/files.lmdb" --preview "$out/preview.png"
run bench "$out/pixels.zarr" --workers 2 --quick
