#!/usr/bin/env bash
# A load of global memory under a predicate, `@%p1 ld.global`: one would expect a predicated LDG, as the machine has it
# and as the same load in a loop or beside a second one becomes. A load that stands alone becomes a branch around it, with
# a convergence barrier: BSSY, BRA, LDG, BSYNC. It hurts who writes a predicate to save a branch.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)
"${pip[@]}" nvidia-cuda-nvdisasm==13.5.37
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)

failed=0
# VERSION TARGET LOADS EXPECTED: whether the machine code of so many loads has a convergence barrier
check() {
    local wheel=nvidia-cuda-nvcc found=no second=""
    [[ $1 == 12.* ]] && wheel=nvidia-cuda-nvcc-cu12
    [[ -d $work/$1 ]] || "${pip[@]}" --target "$work/$1" "$wheel==$1"
    [[ $3 == 2 ]] && second="@%p1 ld.global.u32 %r4, [%rd4]; add.u32 %r3, %r3, %r4;"
    cat >"$work/k.ptx" <<END
.version 7.8
.target $2
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 z, .param .u64 y, .param .u32 n)
{
.reg .b32 %r<5>;
.reg .b64 %rd<7>;
.reg .pred %p<2>;
ld.param.u64 %rd1, [x];
ld.param.u64 %rd5, [z];
ld.param.u64 %rd6, [y];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
setp.lt.u32 %p1, %r2, %r1;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
add.s64 %rd4, %rd5, %rd2;
mov.u32 %r3, 0;
mov.u32 %r4, 0;
@%p1 ld.global.u32 %r3, [%rd3];
$second
add.s64 %rd6, %rd6, %rd2;
st.global.u32 [%rd6], %r3;
ret;
}
END
    "$(find "$work/$1" -path '*bin/ptxas')" -arch="$2" "$work/k.ptx" -o "$work/k.cubin"
    "$nvdisasm" --print-code "$work/k.cubin" >"$work/code"
    grep -q BSSY "$work/code" && found=yes
    echo "ptxas $1, $2: $3 predicated load(s) are a branch with a barrier: $found (known: $4)"
    [[ $found == "$4" ]] || failed=1
}
for version in 12.0.140 13.0.88 13.5.37; do
    for target in sm_80 sm_90; do
        check "$version" "$target" 1 yes
        check "$version" "$target" 2 no
    done
done
exit $failed
