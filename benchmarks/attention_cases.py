"""Random calls of attention, of its gradients, and of decoding, for random_shapes.py.

Tensors are [batch, tokens, heads, d] in memory, as transformers have them. cuDNN and FlashAttention-2 are torch's.
FlashAttention-4 (the package flash-attn-4) is a peer where it is installed and takes the call.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from cases import ROOT, ROUNDING, SAMPLES, Case, close, log_uniform, numbers
from harness import Call, LeftOut

import dsl

HEADS = (16, 16), (32, 8), (8, 8)
"""Heads of queries, and of keys and values."""
TOKENS = 16384


# ---- attention and its gradients ----


def attention(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    return attention_case(dtype, *drawn(source))


def gradients(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    return gradients_case(dtype, *drawn(source))


def drawn(source: random.Random) -> tuple[int, int, int, int, int, bool]:
    """batch, tokens, heads, kv_heads, d, causal."""
    (heads, kv_heads), d = source.choice(HEADS), source.choice((64, 128, 128, 256))
    step, causal = source.choice((1, 64, 128)), source.choice((False, True))
    tokens = int(log_uniform(source, 1024, 32769)) // step * step
    return max(1, TOKENS // tokens), tokens, heads, kv_heads, d, causal


def attention_case(dtype: str, batch: int, tokens: int, heads: int, kv_heads: int, d: int, causal: bool) -> Case:
    q, o = (numbers(dtype, batch, tokens, heads, d).transpose(1, 2) for _ in range(2))
    k, v = (numbers(dtype, batch, tokens, kv_heads, d).transpose(1, 2) for _ in range(2))
    scale = d**-0.5

    def right() -> bool:
        return all(close(o[at], attended(*of, scale, causal)[0], ROUNDING[dtype]) for at, of in ends(q, k, v))

    return Case(
        "causal" if causal else "full",
        dtype,
        {"batch": batch, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "d": d},
        2 * (q.numel() + k.numel()) * q.element_size(),
        {name: partial(call, q, k, v) for name, call in attention_peers(q, k, v, scale, causal)},
        right,
        dsl.load(SAMPLES / "attention.tile"),
        Call("attention", {"CAUSAL": True} if causal else {}),
        (o, q, k, v, scale, None),
    )


def gradients_case(dtype: str, batch: int, tokens: int, heads: int, kv_heads: int, d: int, causal: bool) -> Case:
    import torch

    q, o, g, dq = (numbers(dtype, batch, tokens, heads, d).transpose(1, 2) for _ in range(4))
    k, v, dk, dv = (numbers(dtype, batch, tokens, kv_heads, d).transpose(1, 2) for _ in range(4))
    scale, constants = d**-0.5, {"CAUSAL": True} if causal else {}
    lse = torch.empty(batch, heads, tokens, device="cuda", dtype=torch.float32)
    dsl.load(SAMPLES / "attention.tile").attention(o, q, k, v, scale, lse, **constants)
    given, peers = [x.detach().requires_grad_() for x in (q, k, v)], dict[str, Callable[[], Any]]()
    for name, call in attention_peers(*given, scale, causal, deterministic=True):
        peer = partial(torch.autograd.grad, call(*given), given, g, retain_graph=True)
        if takes(peer):
            peers[name] = peer
    if not peers:
        raise LeftOut(f"no peer has gradients of heads of {d}")

    def right() -> bool:
        group = heads // kv_heads
        for b, of in (0, 0), (batch - 1, kv_heads - 1):
            mine = slice(of * group, of * group + group)
            wanted = derived(q[b, mine], k[b, of], v[b, of], g[b, mine], scale, causal)
            found = dq[b, mine], dk[b, of], dv[b, of]
            if not all(close(*pair, 2 * ROUNDING[dtype]) for pair in zip(found, wanted, strict=True)):
                return False
        return True

    return Case(
        "causal" if causal else "full",
        dtype,
        {"batch": batch, "tokens": tokens, "heads": heads, "kv_heads": kv_heads, "d": d},
        4 * (q.numel() + k.numel()) * q.element_size(),
        peers,
        right,
        dsl.load(SAMPLES / "attention_backward.tile"),
        Call("attention_backward", constants),
        (dq, dk, dv, q, k, v, o, g, lse, scale),
    )


def packed(source: random.Random) -> tuple[list[int], int, int, int, bool]:
    """Lengths of sequences of 64 to 8192 tokens, one behind the other, then heads, kv_heads, d, causal."""
    (heads, kv_heads), d = source.choice(HEADS), source.choice((64, 128, 128, 256))
    causal, lengths = source.choice((False, True)), list[int]()
    while (total := sum(lengths)) < TOKENS:
        lengths.append(int(log_uniform(source, 64, min(8192, TOKENS - total) + 1)))
    return lengths, heads, kv_heads, d, causal


def varlen(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch

    lengths, heads, kv_heads, d, causal = packed(source)
    starts = torch.tensor([0, *accumulate(lengths)], device="cuda", dtype=torch.int32)
    longest, scale = max(lengths), d**-0.5
    q, o = (numbers(dtype, sum(lengths), heads, d) for _ in range(2))
    k, v = (numbers(dtype, sum(lengths), kv_heads, d) for _ in range(2))

    def right() -> bool:
        for first, end in pairwise(starts.tolist()):
            for head in 0, heads - 1:
                of, kv = (slice(first, end), head), (slice(first, end), head * kv_heads // heads)
                if not close(o[of], attended(q[of], k[kv], v[kv], scale, causal)[0], ROUNDING[dtype]):
                    return False
        return True

    calls = {
        "flash": partial(flash_2, q, k, v, starts, longest, scale, causal),
        "fa4": varlen_fa4(q, k, v, starts, longest, scale, causal),
    }
    return Case(
        "packed causal" if causal else "packed",
        dtype,
        {"sequences": len(lengths), "longest": longest, "heads": heads, "kv_heads": kv_heads, "d": d},
        2 * (q.numel() + k.numel()) * q.element_size(),
        {name: call for name, call in calls.items() if call is not None and takes(call)},
        right,
        dsl.load(SAMPLES / "attention.tile"),
        Call("attention_packed", {"CAUSAL": True} if causal else {}),
        (*map(by_heads, (o, q, k, v)), starts, starts, scale, None),
    )


def varlen_gradients(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    import torch

    lengths, heads, kv_heads, d, causal = packed(source)
    starts = torch.tensor([0, *accumulate(lengths)], device="cuda", dtype=torch.int32)
    total, longest, scale, constants = sum(lengths), max(lengths), d**-0.5, {"CAUSAL": True} if causal else {}
    q, o, g, dq = (numbers(dtype, total, heads, d) for _ in range(4))
    k, v, dk, dv = (numbers(dtype, total, kv_heads, d) for _ in range(4))
    lse = torch.empty(1, heads, total, device="cuda", dtype=torch.float32)
    inputs = (*map(by_heads, (q, k, v)),)
    dsl.load(SAMPLES / "attention.tile").attention_packed(by_heads(o), *inputs, starts, starts, scale, lse, **constants)
    bounds = starts, starts, longest, longest
    out, sums, state, unused, _ = flash_2(q, k, v, starts, longest, scale, causal)
    backward = partial(torch.ops.aten._flash_attention_backward, g, q, k, v, out, sums, *bounds, 0.0, causal)
    calls: dict[str, Callable[[], Any]] = {"flash": partial(backward, state, unused, scale=scale)}
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    forward = varlen_fa4(*given, starts, longest, scale, causal)
    if forward is not None and takes(forward):
        result = forward()
        result = result[0] if isinstance(result, tuple) else result
        calls["fa4"] = partial(torch.autograd.grad, result, given, g, retain_graph=True)

    def right() -> bool:
        group = heads // kv_heads
        for first, end in pairwise(starts.tolist()):
            of = slice(first, end)
            q0, g0 = (x[of, :group].transpose(0, 1) for x in (q, g))
            wanted = derived(q0, k[of, 0], v[of, 0], g0, scale, causal)
            found = dq[of, :group].transpose(0, 1), dk[of, 0], dv[of, 0]
            if not all(close(*pair, 2 * ROUNDING[dtype]) for pair in zip(found, wanted, strict=True)):
                return False
        return True

    return Case(
        "packed causal" if causal else "packed",
        dtype,
        {"sequences": len(lengths), "longest": longest, "heads": heads, "kv_heads": kv_heads, "d": d},
        4 * (q.numel() + k.numel()) * q.element_size(),
        {name: call for name, call in calls.items() if takes(call)},
        right,
        dsl.load(SAMPLES / "attention_backward.tile"),
        Call("attention_packed_backward", constants),
        (*map(by_heads, (dq, dk, dv)), *inputs, by_heads(o), by_heads(g), lse, starts, starts, scale),
    )


def by_heads(x: Any) -> Any:
    """The view [1, heads, total, d] of x[total, heads, d]."""
    return x.transpose(0, 1)[None]


def varlen_fa4(
    q: Any, k: Any, v: Any, starts: Any, longest: int, scale: float, causal: bool
) -> Callable[[], Any] | None:
    """FlashAttention-4 of sequences that begin at `starts`, or None where it is not installed."""
    try:
        from flash_attn.cute import flash_attn_varlen_func  # type: ignore[import-not-found]
    except ImportError:
        return None
    bounds = starts, starts, longest, longest
    return partial(flash_attn_varlen_func, q, k, v, None, *bounds, softmax_scale=scale, causal=causal)


def windows(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    """Causal attention in which a query sees 128 to 4096 keys (docs/examples/window_attention.tile)."""
    import torch

    d, heads, tokens = source.choice((64, 128, 128, 256)), 16, int(log_uniform(source, 2048, 32769)) // 8 * 8
    batch, window, scale = max(1, TOKENS // tokens), int(log_uniform(source, 128, 4097)), d**-0.5
    q, k, v, o = (numbers(dtype, batch, heads, tokens, d) for _ in range(4))
    given = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    calls: dict[str, Callable[[], Any]] = {
        "flash": partial(flash_2, *given, None, tokens, scale, causal=True, window=window)
    }
    with suppress(ImportError):
        from flash_attn.cute import flash_attn_func

        calls["fa4"] = partial(flash_attn_func, *given, softmax_scale=scale, causal=True, window_size=(window - 1, 0))

    def right() -> bool:
        hidden = torch.ones(tokens, tokens, device="cuda", dtype=torch.bool)
        hidden &= hidden.tril(-window) | hidden.triu(1)
        for at in (0, 0), (batch - 1, heads - 1):
            x = (q[at].float() @ k[at].float().T).mul_(scale).masked_fill_(hidden, -torch.inf)
            if not close(o[at], torch.softmax(x, 1) @ v[at].float(), ROUNDING[dtype]):
                return False
        return True

    return Case(
        "window",
        dtype,
        {"batch": batch, "tokens": tokens, "heads": heads, "d": d, "window": window},
        4 * q.numel() * q.element_size(),
        {name: call for name, call in calls.items() if takes(call)},
        right,
        dsl.load(ROOT.parent / "docs" / "examples" / "window_attention.tile"),
        Call("window_attention"),
        (o, q, k, v, scale, window),
    )


def flash_2(
    q: Any, k: Any, v: Any, starts: Any, longest: int, scale: float, causal: bool, window: int | None = None
) -> Any:
    """torch's FlashAttention-2 of sequences that begin at `starts`, or of equal ones. A query sees so many keys."""
    import torch

    left, right = -1 if window is None else window - 1, 0 if causal else -1
    return torch.ops.aten._flash_attention_forward(
        q, k, v, starts, starts, longest, longest, 0.0, causal, False,
        scale=scale, window_size_left=left, window_size_right=right,
    )  # fmt: skip


def takes(call: Callable[[], Any]) -> bool:
    """Whether a peer takes this call. Their refusals have no common class."""
    with suppress(RuntimeError, AssertionError, NotImplementedError, ValueError):
        call()
        return True
    return False


def attention_peers(
    q: Any, k: Any, v: Any, scale: float, causal: bool, deterministic: bool = False
) -> list[tuple[str, Callable[..., Any]]]:
    """The peers that take this call. Each is a function of q, k and v. With `deterministic`, FlashAttention-4 is there
    twice: its gradients have an order of sums that does not change (ours always have), or any order."""
    calls = {name: partial(attend_by, backend, scale=scale, causal=causal) for name, backend in BACKENDS.items()}
    with suppress(ImportError):
        from flash_attn.cute import flash_attn_func  # type: ignore[import-not-found]

        calls["fa4"] = partial(transposed, flash_attn_func, softmax_scale=scale, causal=causal)
        if deterministic:
            calls["fa4 in order"] = partial(calls["fa4"], deterministic=True)
    taken = [(name, call) for name, call in calls.items() if takes(partial(call, q, k, v))]
    if not taken:
        raise LeftOut(f"no peer has heads of {q.shape[-1]}")
    return taken


def transposed(call: Callable[..., Any], q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Calls a function whose tensors are [batch, tokens, heads, d]."""
    out = call(*(x.transpose(1, 2) for x in (q, k, v)), **options)
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)


def ends(q: Any, k: Any, v: Any) -> Iterator[tuple[tuple[int, int], tuple[Any, Any, Any]]]:
    """The first and the last head, with their matrices."""
    group = q.shape[1] // k.shape[1]
    for b, h in (0, 0), (q.shape[0] - 1, q.shape[1] - 1):
        yield (b, h), (q[b, h], k[b, h // group], v[b, h // group])


def attended(q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple[Any, Any]:
    """The result and the probabilities of one head, in float32."""
    import torch

    x = (q.float() @ k.float().T).mul_(scale)
    if causal:
        x.masked_fill_(torch.ones_like(x, dtype=torch.bool).triu_(1), -torch.inf)
    p = torch.softmax(x, 1)
    return p @ v.float(), p


def derived(q: Any, k: Any, v: Any, g: Any, scale: float, causal: bool) -> tuple[Any, Any, Any]:
    """The gradients of the queries q[heads, tokens, d] with the result's gradient g, and of their shared k and v."""
    import torch

    dq, dk, dv = torch.empty_like(q, dtype=torch.float32), 0, 0
    for h in range(q.shape[0]):
        _, p = attended(q[h], k, v, scale, causal)
        dp = g[h].float() @ v.float().T
        dv = dv + p.T @ g[h].float()
        dp.sub_((p * dp).sum(1, keepdim=True)).mul_(p).mul_(scale)
        dq[h] = dp @ k.float()
        dk = dk + dp.T @ q[h].float()
    return dq, dk, dv


# ---- decoding ----

GROUPS = (32, 8), (64, 8), (16, 16)
"""Heads of queries, and of keys and values."""
BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}


def decoding(source: random.Random, dtype: str, options: argparse.Namespace) -> Case:
    (heads, kv_heads), d = source.choice(GROUPS), source.choice((64, 128, 256))
    batch, keys = 1 << source.randrange(7), int(log_uniform(source, 1024, 65537))
    batch, rows = max(1, min(batch, (1 << 29) // (kv_heads * keys * d))), source.choice((0, 0, 0, 16, 64, 256))
    return decode_case(dtype, batch, keys - keys % (rows or 1), heads, kv_heads, d, rows)


def in_pages(x: Any, pages: Any) -> Any:
    """Lays x[batch, kv_heads, keys, d] into pages, of which these of each sequence hold its keys."""
    import torch

    parts = x.view(torch.uint8).unflatten(2, (pages.shape[1], -1)).transpose(1, 2).flatten(0, 1)
    return torch.empty_like(parts).index_copy_(0, pages.flatten().long(), parts).view(x.dtype)


def decode_case(dtype: str, batch: int, keys: int, heads: int, kv_heads: int, d: int, rows: int = 0) -> Case:
    """With keys and values in pages of so many rows, unless `rows` is 0. Bytes are caches with a scale for each head,
    for queries in bf16."""
    import torch

    is_cache = dtype in ("s8", "e4m3")
    q, o = (numbers("bf16" if is_cache else dtype, batch, heads, 1, d) for _ in range(2))
    k, v = (numbers(dtype, batch, kv_heads, keys, d) for _ in range(2))
    scale, peers = d**-0.5, dict[str, Callable[[], Any]]()
    scales = torch.rand(kv_heads, device="cuda") * 0.01 + 0.01 if is_cache else None
    for name, backend in BACKENDS.items():
        peer = partial(attend_by, backend, q, k, v, scale)
        if takes(peer):
            peers[name] = peer
    if not peers and not is_cache:
        raise LeftOut(f"no peer has heads of {d}")
    reading, found = dsl.load(ROOT / "peers" / "read.tile").read, torch.zeros(1, dtype=torch.int32, device="cuda")
    both = torch.cat([x.flatten().view(torch.uint8) for x in (k, v)]).view(torch.int32)
    peers["read"] = lambda: reading(found, both)
    module, caches = dsl.load(SAMPLES / "decode.tile"), {"k_scale": scales, "v_scale": scales} if is_cache else {}
    arguments: tuple[Any, ...] = (o, q, k, v, scale, 0)
    if rows:
        peers["flat"] = partial(module.attention_of_few, torch.empty_like(o), *arguments[1:], **caches)
        pages = torch.randperm(batch * (keys // rows), device="cuda", dtype=torch.int32).view(batch, -1)
        arguments = (o, q, in_pages(k, pages), in_pages(v, pages), scale, 0, pages)
    if is_cache:
        arguments = (*arguments, *([None] * (8 - len(arguments))), scales, scales)

    def right() -> bool:
        groups = q.view(batch, kv_heads, heads // kv_heads, d).float()
        factor = 1.0 if scales is None else scales[None, :, None, None]
        scores = (groups @ k.float().transpose(2, 3)).mul_(scale * factor)
        return close(
            o, (torch.softmax(scores, 3) @ v.float() * factor).view(o.shape), 3e-2 if is_cache else ROUNDING[dtype]
        )

    return Case(
        "decode",
        dtype,
        {"batch": batch, "keys": keys, "heads": heads, "kv_heads": kv_heads, "d": d, "rows": rows},
        2 * (k.numel() + q.numel()) * k.element_size(),
        peers,
        right,
        module,
        Call("attention_of_few"),
        arguments,
    )


def attend_by(backend: str, q: Any, k: Any, v: Any, scale: float, causal: bool = False) -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    with sdpa_kernel(getattr(SDPBackend, backend)):
        return scaled_dot_product_attention(q, k, v, scale=scale, is_causal=causal, enable_gqa=True)
