#!/usr/bin/env bash
# Four floats, max(x, 0), rounded to integers and packed to four unsigned bytes: one would expect the bytes. ptxas 12.0
# to 13.5 write F2IP.U8.F32…RELU from sm_89 on: an H200 ends the launch with error 715, illegal instruction, whether
# ptxas 13.0 or the driver 580.159.04 assembled it. Adding the floats to -0 first avoids it.
# It hurts who quantises behind a ReLU: relu(x).to(uint8) in one kernel.
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
ld.global.f32 %f0, [%at+0];
max.f32 %f0, %f0, 0f00000000;
cvt.rzi.s32.f32 %r0, %f0;
ld.global.f32 %f1, [%at+4];
max.f32 %f1, %f1, 0f00000000;
cvt.rzi.s32.f32 %r1, %f1;
ld.global.f32 %f2, [%at+8];
max.f32 %f2, %f2, 0f00000000;
cvt.rzi.s32.f32 %r2, %f2;
ld.global.f32 %f3, [%at+12];
max.f32 %f3, %f3, 0f00000000;
cvt.rzi.s32.f32 %r3, %f3;
cvt.pack.sat.u8.s32.b32 %r4, %r1, %r0, 0;
cvt.pack.sat.u8.s32.b32 %r5, %r3, %r2, %r4;
st.global.b32 [%at], %r5;
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
for version in 12.0.140 13.0.88 13.5.37; do
    check "$version" "a conversion to bytes with RELU" 'F2IP\.U8\S*\.RELU' yes
done
exit $failed
