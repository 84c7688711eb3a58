"""Boxes of pixels that go out of shared memory (`im2col_no_offs`), copied and added, against a walk over the pixels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from im2col_kernel import Probe, at_random
from msgspec.structs import replace
from tensor_map_kernel import swizzled
from test_im2col_copies import skip_without_maps

from dsl.runtime import Kernel
from dsl.runtime.errors import FindingError

OUT = """
    ld.param.u64 %out, [pixels_0]; cvta.to.global.u64 %out, %out;
    shl.b32 %n, %t, 2;
NEXT:
    setp.ge.u32 %p, %n, %size; @%p bra FILLED;
    cvt.u64.u32 %a, %n; add.s64 %a, %out, %a; ld.global.u32 %w, [%a];
    add.u32 %bar, %to, %n; st.shared.u32 [%bar], %w;
    add.u32 %n, %n, 512; bra NEXT;
FILLED:
    fence.proxy.async.shared::cta;
    bar.sync 0;
    setp.ne.u32 %p, %t, 0; @%p bra DONE;
    {read}
    mov.b64 %map, pixels_1; cvta.param.u64 %map, %map;
    {instruction} [%map, {{{coordinates}}}], [%to];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
DONE: ret;"""
COPY = "cp.async.bulk.tensor.{}d.global.shared::cta.im2col_no_offs.bulk_group"
ADD = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.add.im2col_no_offs.bulk_group"


def text_of(probe: Probe, instruction: str) -> str:
    """The kernel that copies pixels in, made to take them out of the bytes of its first array."""
    text = probe.text()
    text = text.replace('"access":"r"', '"access":"rw"').replace('"access":"w"', '"access":"r"')
    read = re.search(r"@%p bra WAIT;\n(.*?)mov\.b64 %map", text, re.S)
    coordinates = re.search(r"\[%map, \{(.*?)\}\]", text)
    assert read is not None and coordinates is not None
    body = OUT.format(read=read[1], coordinates=coordinates[1], instruction=instruction.format(probe.rank))
    start, end = text.index("    setp.ne.u32 %p, %t, 0; @%p bra READY;"), text.index("DONE: ret;") + len("DONE: ret;")
    return text[:start] + body.strip("\n") + text[end:]


def places(probe: Probe) -> Any:
    """[pixels, channels]: 1 + the number of each element of the array in its memory, 0 outside of it."""
    whole = np.arange(1, 1 + int(np.prod((*probe.shape[:-1], probe.row))), dtype=np.uint32)
    same = replace(probe)
    vars(same)["array"] = whole.reshape(*probe.shape[:-1], probe.row)[..., : probe.shape[-1]]
    return same.pixels()


def is_done(probe: Probe) -> bool:
    """By an H100: window and first channel are inside of the array, and channels end at multiples of 16 bytes."""
    return probe.first[0] >= 0 and min(probe.window.lower) >= 0 >= max(probe.window.upper) and probe.shape[-1] % 4 == 0


WORDS = [replace(probe, offsets=(0,) * (probe.rank - 2)) for probe in map(at_random, range(240)) if probe.size == 4]
PROBES = list(filter(is_done, WORDS))


@pytest.mark.parametrize("instruction", [COPY, ADD])
def test_pixels_that_a_device_would_not_copy_are_refused(instruction: str) -> None:
    refused = [probe for probe in WORDS if not is_done(probe)][:12]
    for probe in refused:
        given, array = np.zeros(probe.bytes, np.uint8), probe.array.base.copy()[..., : probe.shape[-1]]
        with pytest.raises(FindingError, match="out of shared memory"):
            Kernel(text_of(probe, instruction), device="emulator")(given, array, *probe.first, *probe.offsets)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("instruction", [COPY, ADD])
def test_pixels_go_where_others_came_from(instruction: str, part: int, device: str) -> None:
    skip_without_maps(device)
    probes = PROBES[part::2]
    assert len(probes) > 5
    for probe in probes:
        box = np.random.default_rng(3).integers(0, 1 << 32, probe.box[::-1], np.uint32)
        where = places(probe)
        array = probe.array.base.copy()[..., : probe.shape[-1]]
        wanted = array.base.copy().reshape(-1)
        inside = where > 0
        wanted[where[inside] - 1] = box[inside] + (wanted[where[inside] - 1] if instruction == ADD else 0)
        given = swizzled(box, probe.swizzle)
        Kernel(text_of(probe, instruction), device=device)(given, array, *probe.first, *probe.offsets)
        np.testing.assert_array_equal(array.base.reshape(-1), wanted, str(probe))
