#!/usr/bin/env bash
# A kernel may have 255 registers, the most that sm_90 gives a thread. One would expect that nvdisasm --life-range-mode
# tells how many are live at each instruction, as for 254. nvdisasm 13.2 ends with "Invalid register count : '255'" and
# prints nothing, although the cubin is of its own release's ptxas; 13.3 prints it.
# It hurts who looks for what spills: kernels with all registers are the ones whose live registers one wants to see.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)

# VALUES: a kernel that loads so many floats, then stores them in another order.
kernel() {
    local at
    echo ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %at;
.reg .f32 %f<$1>;
ld.param.u64 %at, [p];
cvta.to.global.u64 %at, %at;"
    for ((at = 0; at < $1; at++)); do echo "ld.volatile.global.f32 %f$at, [%at+$((4 * at))];"; done
    for ((at = 0; at < $1; at++)); do echo "st.volatile.global.f32 [%at+$((4 * at))], %f$(($1 - 1 - at));"; done
    echo "ret;
}"
}

failed=0
# VERSION VALUES REGISTERS ANSWER: how many registers ptxas takes, and whether nvdisasm lists those that are live
check() {
    local version=$1 answer=refused registers
    [[ -d $work/$version ]] || "${pip[@]}" --target "$work/$version" \
        "nvidia-cuda-nvcc==$version" "nvidia-cuda-nvdisasm==$version"
    kernel "$2" >"$work/k.ptx"
    registers=$("$(find "$work/$version" -path '*bin/ptxas')" -v -arch=sm_90 "$work/k.ptx" -o "$work/k.cubin" 2>&1 |
        grep -oE 'Used [0-9]+ registers' | grep -oE '[0-9]+')
    "$(find "$work/$version" -name nvdisasm -type f)" --print-code --life-range-mode count "$work/k.cubin" \
        >"$work/out" 2>&1 && grep -q '| GPR' "$work/out" && answer=listed
    echo "ptxas and nvdisasm $version, $registers registers: live registers are $answer (known: $3, $4)"
    [[ $answer == refused ]] && head -n 1 "$work/out"
    [[ $registers == "$3" && $answer == "$4" ]] || failed=1
}
check 13.2.78 240 254 listed
check 13.2.78 300 255 refused
check 13.3.73 300 255 listed
exit $failed
