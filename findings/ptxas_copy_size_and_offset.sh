#!/usr/bin/env bash
# cp.async with a source size in a register: one would expect one instruction, as PTX has it. If the size is a select of
# 16 and 0, it is a predicate of LDGSTS. Any other size takes five further instructions (LDGSTS with ZFILL). A constant
# behind its global address is free from -2048 to 2047, while a plain load has 24 bits for it; from 2048 on, two additions
# are made. It hurts who counts instructions of a copy loop from its PTX.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)
"${pip[@]}" nvidia-cuda-nvdisasm==13.5.37
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)

# VERSION LINES: the number of instructions of a kernel for sm_80 with these lines
count() {
    local wheel=nvidia-cuda-nvcc
    [[ $1 == 12.* ]] && wheel=nvidia-cuda-nvcc-cu12
    [[ -d $work/$1 ]] || "${pip[@]}" --target "$work/$1" "$wheel==$1"
    cat >"$work/k.ptx" <<END
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b32 %r<7>;
.reg .b64 %rd<7>;
.reg .pred %p<2>;
.shared .align 128 .b8 s[16384];
ld.param.u64 %rd1, [x];
ld.param.u64 %rd5, [y];
ld.param.u32 %r4, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 16;
add.s64 %rd3, %rd1, %rd2;
shl.b32 %r2, %r1, 4;
mov.u32 %r3, s;
add.s32 %r3, %r3, %r2;
$2
cp.async.wait_all;
bar.sync 0;
ld.shared.u32 %r6, [%r3+64];
add.s64 %rd6, %rd5, %rd2;
st.global.u32 [%rd6], %r6;
ret;
}
END
    "$(find "$work/$1" -path '*bin/ptxas')" -arch=sm_80 "$work/k.ptx" -o "$work/k.cubin"
    "$nvdisasm" --print-code "$work/k.cubin" | grep -E '^ +/\*[0-9a-f]{4}\*/' | grep -cv -e NOP -e 'BRA `(.L_x_0)'
}
copy="cp.async.cg.shared.global"
failed=0
for version in 12.0.140 13.0.88 13.5.37; do
    pair="add.s64 %rd4, %rd3, AT; $copy [%r3], [%rd3], 16; $copy [%r3+4096], [%rd4], 16;"
    near=$(count "$version" "${pair/AT/2032}") far=$(count "$version" "${pair/AT/2048}")
    one="$copy [%r3], [%rd3], 16, %r5;"
    select=$(count "$version" "setp.lt.u32 %p1, %r1, %r4; selp.b32 %r5, 16, 0, %p1; $one")
    number=$(count "$version" "min.u32 %r5, %r4, 16; $one")
    echo "ptxas $version: offset 2048 takes $((far - near)) instructions more than 2032 (known: 2)"
    echo "ptxas $version: a size of min(n, 16) takes $((number - select)) instructions more than 16 or 0 (known: 5)"
    [[ $((far - near)) == 2 && $((number - select)) == 5 ]] || failed=1
done
exit $failed
