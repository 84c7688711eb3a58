#!/usr/bin/env bash
# A kernel with .reqnctapercluster and a barrier of its cluster: one would expect a barrier of the cluster. ptxas 12.9,
# 13.0 and 13.5 write a barrier of the block, too, BAR.SYNC, behind each barrier.cluster.wait, unless the kernel also
# says .explicitcluster, which the PTX ISA describes by what a launch has to name.
# It hurts who synchronises clusters often, by hand-written PTX or another compiler: a barrier of all warps in each
# round.
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
.reqnctapercluster 2, 1, 1
{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .f32 %f<8>;
.reg .b64 %at, %rd<4>;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
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
    check "$version" "a barrier of the block" 'BAR\.SYNC' yes
done
sed -i 's/^.reqntid/.explicitcluster\n&/' "$work/kernel.ptx"
for version in 12.9.86 13.0.88 13.5.37; do
    check "$version" "with .explicitcluster, a barrier of the block" 'BAR\.SYNC' no
done
exit $failed
