#!/usr/bin/env bash
# The same wgmma.mma_async three times in a row, each adding to the same sums: one would expect three times A·B. The
# PTX ISA asks for no fence between products that add to the same registers. ptxas 12.0 to 13.5 keep one: they take the
# sums for a result and not for what is added to. An H200 gave 1 times A·B, by ptxas 13.0 and by the driver 580.159.04;
# so for all element types, for A, B, A, B (2 products of 4), and for a loop of four rounds. With wgmma.fence between
# them all are there. mma.sync and tcgen05.mma are kept.
# It hurts who accumulates one tile several times: powers, iterative refinement, benchmarks that repeat a product.
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
    "$(find "$work/$1" -path '*bin/ptxas')" -arch=sm_90a "$work/kernel.ptx" -o "$work/kernel.cubin" >&2
    "$nvdisasm" --print-code "$work/kernel.cubin"
}

cat >"$work/kernel.ptx" <<'EOF'
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128
{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .f32 %f<8>;
.reg .b64 %at, %rd<4>;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
ld.global.f32 %f0, [%at+0];
ld.global.f32 %f1, [%at+4];
ld.global.f32 %f2, [%at+8];
ld.global.f32 %f3, [%at+12];
ld.global.b64 %rd0, [%at+64];
ld.global.b64 %rd1, [%at+72];
setp.eq.u32 %p0, 0, 0;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
st.global.f32 [%at+0], %f0;
st.global.f32 [%at+4], %f1;
st.global.f32 [%at+8], %f2;
st.global.f32 [%at+12], %f3;
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
count() {
    code "$1" >"$work/code"
    local found
    found=$(grep -cE 'HGMMA\S* R[0-9]' "$work/code")  # what ends a group is of RZ
    echo "ptxas $1: $2: $found of 3 products (known: $3)"
    [[ $found == "$3" ]] || failed=1
}
for version in 12.0.140 13.0.88 13.5.37; do
    count "$version" "in a row" 1
done
sed -i 's/^wgmma.mma_async.*/&\nwgmma.fence.sync.aligned;/' "$work/kernel.ptx"
for version in 12.0.140 13.0.88 13.5.37; do
    count "$version" "with fences" 3
done
exit $failed
