#!/usr/bin/env bash
# One PTX text, linked with nothing else by nvJitLink: one would expect the machine code that ptxas and the driver make of
# it. But the linker assembles it as if other parts could follow (ptxas -c), and then leaves out `setmaxnreg`. The info
# log says so, as a possible loss of performance; there is no error, and the result runs. A kernel whose producer warps
# give registers to its consumer warps has too few then. The driver's own linker (cuLinkAddData, which is the only way to
# get machine code from the driver) does the same: a bf16 product in tiles of 192 x 256 took 3.8 times as long, because
# its accumulators were spilled and its wgmma ran one after the other (driver 580.159, H200).
# It hurts who keeps machine code by a linker: compile caches, cuda.core's Linker and those who build on it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
pip=("$work/venv/bin/pip" install -q --disable-pip-version-check)
"${pip[@]}" cuda-bindings==13.5.0 nvidia-nvjitlink==13.5.37 nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
ptxas=$(find "$work/venv" -name ptxas -type f)
nvdisasm=$(find "$work/venv" -name nvdisasm -type f)
cd "$work"
cat >kernel.ptx <<'PTX'
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
.reqntid 256
.minnctapersm 1
{
.reg .pred %p;
.reg .b32 %r<3>;
.reg .b64 %rd;
ld.param.u64 %rd, [out];
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 7;
shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;
setp.ne.u32 %p, %r1, 0;
@%p bra consumers;
setmaxnreg.dec.sync.aligned.u32 24;
ret;
consumers:
setmaxnreg.inc.sync.aligned.u32 240;
st.global.u32 [%rd], %r0;
ret;
}
PTX
cat >link.py <<'PY'
from cuda.bindings import nvjitlink

text = open("kernel.ptx", "rb").read()
linker = nvjitlink.create(1, ["-arch=sm_90a"])
nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "kernel")
nvjitlink.complete(linker)
code = bytearray(nvjitlink.get_linked_cubin_size(linker))
nvjitlink.get_linked_cubin(linker, code)
open("linked.cubin", "wb").write(code)
log = bytearray(nvjitlink.get_info_log_size(linker) + 1)
nvjitlink.get_info_log(linker, log)
print("nvJitLink", *nvjitlink.version(), "says:", log.rstrip(b"\0").decode().strip())
PY
venv/bin/python link.py
"$ptxas" -arch=sm_90a kernel.ptx -o assembled.cubin
count() { "$nvdisasm" -c "$1" | grep -c USETMAXREG || true; }
assembled=$(count assembled.cubin)
linked=$(count linked.cubin)
echo "setmaxnreg in the machine code: $assembled of 2 by ptxas, $linked of 2 by nvJitLink"
[ "$assembled" = 2 ] && [ "$linked" = 0 ]
