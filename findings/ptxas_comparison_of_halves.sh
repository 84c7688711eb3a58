#!/usr/bin/env bash
# Of two 16-bit integers in one register, max(x, 0) == 0 each: one would expect an answer for each of the two. ptxas
# 12.8 to 13.3 take, from sm_90 on, the predicate of VIMNMX.S16x2 for it, which is of both halves: on an H200 56 of 64
# answers were wrong, by ptxas 13.0 and by the driver 580.159.04. 12.6 and 13.4 compare each half.
# It hurts who works on pairs of s16 and branches on their sign: audio, video, sequence alignment.
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
ld.global.v2.b16 {%h1, %h2}, [%at];
max.s16 %h1, %h1, 0;
setp.eq.s16 %p1, %h1, 0;
selp.b32 %r1, 1, 0, %p1;
max.s16 %h2, %h2, 0;
setp.eq.s16 %p2, %h2, 0;
selp.b32 %r2, 1, 0, %p2;
st.global.v2.b16 [%at], {%h1, %h2};
st.global.v2.b32 [%at+8], {%r1, %r2};
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
for version in 12.8.93 13.0.88 13.3.73; do
    check "$version" "a predicate of VIMNMX.S16x2" 'VIMNMX\.S16x2 \w+, P[0-9]' yes
done
for version in 12.6.85 13.4.92 13.5.37; do
    check "$version" "a predicate of VIMNMX.S16x2" 'VIMNMX\.S16x2 \w+, P[0-9]' no
done
exit $failed
