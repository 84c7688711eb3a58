#!/usr/bin/env bash
# max(min(x, 255), 0) == 255: one would expect true for x >= 255 alone. ptxas 12.5 to 13.3 take, from sm_90 on, a
# predicate that VIMNMX.RELU gives in place of the comparison. It is set for other x, too: on an H200 16 of 32 results
# were wrong, by ptxas 13.0 and by the driver 580.159.04. 12.4 and 13.4 compare.
# It hurts who asks whether a clamped integer is at its bound: saturation counters, quantisation, image masks.
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
{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>;
.reg .f32 %f<8>;
.reg .b64 %at, %rd<4>;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
ld.global.b32 %r1, [%at];
ld.global.b32 %r2, [%at+4];
ld.global.b32 %r3, [%at+8];
min.s32 %r4, %r1, 255;
max.s32 %r5, %r4, 0;
setp.eq.s32 %p1, %r5, 255;
selp.b32 %r6, 1, 0, %p1;
st.global.b32 [%at], %r6;
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
for version in 12.5.82 13.0.88 13.3.73; do
    check "$version" "a predicate of VIMNMX.RELU" 'VIMNMX\.RELU \w+, P[0-9]' yes
done
for version in 12.4.131 13.4.92 13.5.37; do
    check "$version" "a predicate of VIMNMX.RELU" 'VIMNMX\.RELU \w+, P[0-9]' no
done
exit $failed
