#!/usr/bin/env bash
# max(c, max(a, -b)): one would expect the maximum of c, a and the negated b. ptxas 12.6 to 13.3 join the two maxima to
# one VIMNMX3 from sm_90 on and leave the negation out: on an H200 14 of 32 results were wrong, by ptxas 13.0 and by
# the driver 580.159.04, which has the same assembler. 12.5 and 13.4 negate first.
# It hurts who takes minima or maxima of integers with a minus in them: clamps, distances, dynamic programming.
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
neg.s32 %r4, %r2;
max.s32 %r5, %r1, %r4;
max.s32 %r6, %r3, %r5;
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
for version in 12.6.85 13.0.88 13.3.73; do
    check "$version" "a negation in front of VIMNMX3" 'IADD3? .*-R[0-9]' no
done
for version in 12.5.82 13.4.92 13.5.37; do
    check "$version" "a negation in front of VIMNMX3" 'IADD3? .*-R[0-9]' yes
done
exit $failed
