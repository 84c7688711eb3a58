#!/usr/bin/env bash
# A wgmma.mma_async, exponentials that do not need it, and wgmma.wait_group behind them: one would expect the order of
# the text, since the exponentials stand there to be computed while the tensor cores multiply. ptxas 12.6 to 13.5 moves
# the wait up, ahead of 31 of 32 exponentials of the same basic block, so almost nothing overlaps. A loop of
# mbarrier.try_wait ahead of the wait, on an mbarrier that is complete, starts another block: then all stay ahead.
# Attention with heads of 128 took 0.94 to 0.98 of the time so (H200).
# It hurts who overlaps products with other work: attention, gradients, epilogues.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --no-deps --disable-pip-version-check)
"${pip[@]}" nvidia-cuda-nvdisasm==13.5.37
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)

# Writes kernel.ptx. $1: lines ahead of the wait.
kernel() {
    local x
    x=$(printf ', %%x%d' {0..31})
    x=${x:2}
    cat >"$work/kernel.ptx" <<EOF
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 128
{
.shared .align 8 .b64 bar;
.reg .pred %p<4>;
.reg .b32 %n<2>;
.reg .f32 %f<4>, %x<32>, %e<32>, %s<33>, %t;
.reg .b64 %at, %rd<4>;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
$(for i in 0 1 2 3; do echo "ld.global.f32 %f$i, [%at+$((4 * i))];"; done)
$(for i in 0 1 2 3; do echo "ld.global.b64 %rd$i, [%at+$((64 + 8 * i))];"; done)
ld.global.u32 %n0, [%at+128];
setp.eq.u32 %p0, 0, 0;
setp.ne.u32 %p2, 0, 0;
mov.f32 %t, 0f00000000;
loop:
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$x}, %rd0, %rd1, %p2, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 1;
mov.f32 %s0, 0f00000000;
$(for i in {0..31}; do echo "ex2.approx.ftz.f32 %e$i, %x$i; add.f32 %s$((i + 1)), %s$i, %e$i;"; done)
add.f32 %t, %t, %s32;
$1
wgmma.wait_group.sync.aligned 0;
$(for i in 0 1 2 3; do echo "mul.f32 %f$i, %f$i, 0f3f000000;"; done)
sub.u32 %n0, %n0, 1;
setp.ne.u32 %p3, %n0, 0;
@%p3 bra loop;
st.global.f32 [%at+32], %t;
$(for i in 0 1 2 3; do echo "st.global.f32 [%at+$((4 * i))], %f$i;"; done)
ret;
}
EOF
}

failed=0
# VERSION NUMBER: how many of 32 exponentials stand behind the wait in the machine code, and how many are known to
count() {
    [[ -d $work/$1 ]] || "${pip[@]}" --target "$work/$1" "nvidia-cuda-nvcc$([[ $1 == 12.* ]] && echo -cu12)==$1"
    "$(find "$work/$1" -path '*bin/ptxas')" -arch=sm_90a "$work/kernel.ptx" -o "$work/kernel.cubin"
    local found
    found=$("$nvdisasm" --print-code "$work/kernel.cubin" 2>"$work/log" | sed '1,/WARPGROUP.DEPBAR.LE gsb0, 0x0/d' | grep -c MUFU.EX2 || true)
    echo "ptxas $1: $3: $found of 32 exponentials behind the wait (known: $2)"
    [[ $found == "$2" ]] || failed=1
}
for version in 12.6.85 13.0.88 13.5.37; do
    kernel ""
    count "$version" 31 "as it is"
    kernel "again: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra again;"
    count "$version" 0 "with mbarrier.try_wait"
done
exit $failed
