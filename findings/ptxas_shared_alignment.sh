#!/usr/bin/env bash
# A variable of shared memory with .align 8192: one would expect an address that is a multiple of 8192. From sm_90 on
# ptxas puts the first one at 0x400, behind what the system keeps, whatever its alignment: the address is in the machine
# code, and an H200 (driver 580.159.04) gives it, for dynamic shared memory, too. On sm_80 it is at 0.
# It hurts who XORs a swizzle of 2048 bytes or more with an address: such tiles must find their own multiple.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)
"${pip[@]}" nvidia-cuda-nvdisasm==13.5.37
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)

failed=0
# VERSION TARGET PATTERN: whether the machine code has the address
check() {
    local wheel=nvidia-cuda-nvcc found=no
    [[ $1 == 12.* ]] && wheel=nvidia-cuda-nvcc-cu12
    [[ -d $work/$1 ]] || "${pip[@]}" --target "$work/$1" "$wheel==$1"
    cat >"$work/k.ptx" <<END
.version 7.8
.target $2
.address_size 64
.shared .align 8192 .b8 s[64];
.visible .entry k(.param .u64 y)
{
.reg .b32 %r<2>;
.reg .b64 %rd<3>;
ld.param.u64 %rd1, [y];
cvta.to.global.u64 %rd2, %rd1;
mov.u32 %r1, s;
st.global.u32 [%rd2], %r1;
ret;
}
END
    "$(find "$work/$1" -path '*bin/ptxas')" -arch="$2" "$work/k.ptx" -o "$work/k.cubin"
    "$nvdisasm" --print-code "$work/k.cubin" >"$work/code"
    grep -qE "$3" "$work/code" && found=yes
    echo "ptxas $1, $2: a variable with .align 8192 is at $4: $found (known: yes)"
    [[ $found == yes ]] || failed=1
}
for version in 12.0.140 13.0.88 13.5.37; do
    check "$version" sm_80 'STG.* RZ' 0
    check "$version" sm_90 'MOV.*, 0x400 ' 0x400
done
exit $failed
