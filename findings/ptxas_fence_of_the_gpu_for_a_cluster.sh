#!/usr/bin/env bash
# mbarrier.arrive.release.cluster at a barrier of the other block of a cluster: one would expect what orders two blocks
# that run at the same time on neighbouring SMs. ptxas 12.9, 13.0 and 13.5 write MEMBAR.ALL.GPU in front of it, a fence
# of the whole GPU, in each round of a pipeline; an arrival that names no scope (the block's, then) is a single
# instruction.
# It hurts who hands slots of a pipeline back across a cluster with the scope spelled out.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)
"${pip[@]}" nvidia-cuda-nvdisasm==13.5.37
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)

# VERSION, and the machine code of kernel.ptx by that ptxas on standard output
code() {
    local wheel=nvidia-cuda-nvcc
    [[ $1 == 12.* ]] && wheel=nvidia-cuda-nvcc-cu12
    [[ -d $work/$1 ]] || "${pip[@]}" --target "$work/$1" "$wheel==$1"
    "$(find "$work/$1" -path '*bin/ptxas')" -arch=sm_90 "$work/kernel.ptx" -o "$work/kernel.cubin" >&2
    "$nvdisasm" --print-code "$work/kernel.cubin"
}

cat >"$work/kernel.ptx" <<'EOF'
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128
.explicitcluster
.reqnctapercluster 2, 1, 1
{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .f32 %f<8>;
.reg .b64 %at, %rd<4>;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
.shared .align 8 .b64 bar;
mov.u32 %r1, bar;
mapa.shared::cluster.u32 %r2, %r1, 1;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
ret;
}
EOF

failed=0
# VERSION WORD PATTERN: whether the machine code has it, which is said to be so
check() {
    local found=no
    code "$1" >"$work/code"
    grep -qE "$3" "$work/code" && found=yes
    echo "ptxas $1: $2: $found (known: $4)"
    [[ $found == "$4" ]] || failed=1
}
for version in 12.9.86 13.0.88 13.5.37; do
    check "$version" "a fence of the GPU" 'MEMBAR\.ALL\.GPU' yes
done
sed -i 's/arrive.release.cluster/arrive/' "$work/kernel.ptx"
for version in 12.9.86 13.0.88 13.5.37; do
    check "$version" "without the words, a fence of the GPU" 'MEMBAR\.ALL\.GPU' no
done
exit $failed
