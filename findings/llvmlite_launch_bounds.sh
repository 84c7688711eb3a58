#!/usr/bin/env bash
# "nvvm.reqntid", "nvvm.maxnreg", "nvvm.minctasm" and "nvvm.cluster_dim" of an LLVM function: one would expect
# .reqntid, .maxnreg, .minnctapersm and .reqnctapercluster in PTX, or an error. llvmlite 0.47 (LLVM 20.1) leaves all
# four out without a word; 0.48 (LLVM 22.1) writes them. LLVM 20 reads them from metadata that later releases dropped.
# It hurts who writes kernels by llvmlite and allows several versions of it: blocks of any size are launched, with as
# many registers as a thread takes, and clusters of one block.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
# each version below
cat >"$work/try.py" <<'EOF'
import sys

import llvmlite
import llvmlite.binding as llvm

MODULE = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr %p) #0 {
  ret void
}
attributes #0 = { "nvvm.reqntid"="128" "nvvm.maxnreg"="64" "nvvm.minctasm"="2" "nvvm.cluster_dim"="2,1,1" }
"""
WORDS = (".reqntid", ".maxnreg", ".minnctapersm", ".reqnctapercluster")

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_90", features="+ptx80")
ptx = machine.emit_assembly(llvm.parse_assembly(MODULE))
found = [word for word in WORDS if word in ptx]
known = sys.argv[1] == "yes"
print(f"llvmlite {llvmlite.__version__}: {', '.join(found) or 'none'} (known: {'all' if known else 'none'})")
sys.exit(found != (list(WORDS) if known else []))
EOF
for row in "0.47.0 no" "0.48.0 yes" "0.50.0 yes"; do
    read -r version known <<<"$row"
    "$work/venv/bin/pip" install -q --disable-pip-version-check "llvmlite==$version"
    "$work/venv/bin/python" "$work/try.py" "$known"
done
