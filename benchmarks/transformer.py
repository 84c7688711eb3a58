"""A small transformer trained with operators of the samples, and with torch's own: losses and times of a step.

    python3 benchmarks/transformer.py --steps 50 --json transformer.json
    python3 benchmarks/transformer.py --steps 6 --profile dsl
    torchrun --nproc-per-node 2 benchmarks/transformer.py --steps 50

The model has `--blocks` blocks of causal attention and a multilayer perceptron, in bf16, and is compiled by
`torch.compile(fullgraph=True)`. "dsl" has layer norm, linear layers and attention of samples/, each with gradients, as
operators of `dsl.torch.op`. "torch" has those of torch.nn.functional, with attention by cuDNN. "eager" is the same
without torch.compile. All three begin with equal weights and get the same tokens. Under torchrun, the gradients of the
processes meet by DistributedDataParallel, and each process has its own tokens.

A step is the forward and backward pass and AdamW. Steps of the runs alternate. The losses are compared with those of
"eager". "nudged" is a second eager run whose weights differ by one rounding of bf16: it shows what the number format
alone changes.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import dsl
import dsl.torch

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
VOCABULARY = 4096


def operators() -> dict[str, Any]:
    """The operators of the samples, with gradients."""
    norm, products = dsl.load(SAMPLES / "layer_norm.tile"), dsl.load(SAMPLES / "matmul.tile")
    attention, backward = dsl.load(SAMPLES / "attention.tile"), dsl.load(SAMPLES / "attention_backward.tile")
    op = dsl.torch.op
    product = op(products.matmul, "transformer::product")

    def of_linear(dc: Any, a: Any, b: Any, bias: Any) -> dict[str, Any]:
        # The gradient of the weight, b.T, is row-major then. Autograd copied it otherwise: 0.7 ms of a step of 22.
        return {"a": product(dc, b.T), "b": product(dc.T, a).T, "bias": dc.sum(0)}

    return {
        "layer_norm": op(
            norm.layer_norm, "transformer::layer_norm", outputs=("y", "mean", "rstd"),
            backward=norm.layer_norm_backward, gradients={"w": "weight", "b": "bias"},
        ),
        "linear": op(
            products.linear, "transformer::linear", scale=None, row_scale=None, residual=None, gain=1.0,
            backward=of_linear,
        ),
        "attention": op(
            attention.attention, "transformer::attention", outputs=("o", "lse"),
            backward=backward.attention_backward, gradients={"g": "o"}, CAUSAL=True,
        ),
    }  # fmt: skip


class Ours:
    """The layers of the model by operators of the samples."""

    made: dict[str, Any]

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.made["layer_norm"](x.flatten(0, -2), 1e-5, weight, bias)[0].view(x.shape)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.made["linear"](x.flatten(0, -2), weight.T, bias).view(*x.shape[:-1], weight.shape[0])

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.made["attention"](q, k, v, q.shape[-1] ** -0.5)[0]


class Theirs:
    """The same by functions of torch."""

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return F.linear(x, weight, bias)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    def __init__(self, layers: Any, width: int, heads: int):
        super().__init__()
        self.layers, self.heads = layers, heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        layers, (batch, tokens, width) = self.layers, x.shape
        y = layers.layer_norm(x, self.first.weight, self.first.bias)
        qkv = layers.linear(y, self.qkv.weight, self.qkv.bias)
        q, k, v = qkv.view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        o = layers.attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + layers.linear(o, self.out.weight, self.out.bias)
        y = layers.layer_norm(x, self.second.weight, self.second.bias)
        up = F.gelu(layers.linear(y, self.up.weight, self.up.bias), approximate="tanh")
        return x + layers.linear(up, self.down.weight, self.down.bias)


class Transformer(nn.Module):
    def __init__(self, layers: Any, options: argparse.Namespace):
        super().__init__()
        self.layers, width = layers, options.width
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(options.tokens, width)
        self.blocks = nn.ModuleList(Block(layers, width, options.heads) for _ in range(options.blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        """The mean loss of the next token."""
        x = self.tokens(tokens[:, :-1]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        x = self.layers.linear(
            self.layers.layer_norm(x, self.norm.weight, self.norm.bias), self.head.weight, self.head.bias
        )
        return F.cross_entropy(x.flatten(0, 1).float(), tokens[:, 1:].flatten())


class Run:
    """A model with its optimizer and what it measured."""

    def __init__(self, model: nn.Module, compiled: bool, processes: int, device: Any):
        self.own, self.losses, self.times = model.to(device), list[float](), list[float]()
        shared = nn.parallel.DistributedDataParallel(self.own, [device.index]) if processes > 1 else self.own
        self.model = torch.compile(shared, fullgraph=processes == 1) if compiled else shared
        self.optimizer = torch.optim.AdamW(self.own.parameters(), lr=3e-4, fused=True)

    def step(self, tokens: Any) -> None:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            loss = self.model(tokens)
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        end.record()
        torch.cuda.synchronize()
        self.losses.append(loss.item())
        self.times.append(start.elapsed_time(end))


def tokens_of(options: argparse.Namespace, rank: int, device: Any) -> list[Any]:
    """Tokens that a model can learn: each follows from the one before it, but for some that are drawn."""
    source = torch.Generator().manual_seed(options.seed + rank)
    shape = (options.steps, options.batch, options.tokens + 1)
    drawn, chance = torch.randint(VOCABULARY, shape, generator=source), torch.rand(shape, generator=source)
    for place in range(1, options.tokens + 1):
        follows = (drawn[..., place - 1] * 5 + 17) % VOCABULARY
        drawn[..., place] = torch.where(chance[..., place] < 0.8, follows, drawn[..., place])
    return list(drawn.to(device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = {"steps": 50, "batch": 8, "tokens": 2048, "width": 2048, "heads": 16, "blocks": 2, "seed": 1}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", choices=("dsl", "torch", "eager"), help="show what the last step of a run takes")
    options = parser.parse_args()
    rank, processes = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    if processes > 1:
        torch.distributed.init_process_group("nccl", device_id=device)
    torch.manual_seed(options.seed)
    ours = Ours()
    ours.made = operators()
    first = Transformer(Theirs(), options).bfloat16()
    nudged = copy.deepcopy(first)
    with torch.no_grad():
        for p in nudged.parameters():
            p.mul_(1 + 2.0**-8 * torch.randn_like(p).sign())
    models = {"dsl": copy.deepcopy(first), "torch": copy.deepcopy(first), "eager": first, "nudged": nudged}
    for module in models["dsl"].modules():
        if hasattr(module, "layers"):
            module.layers = ours
    runs = {name: Run(model, name in ("dsl", "torch"), processes, device) for name, model in models.items()}
    *before, last = tokens_of(options, rank, device)
    for tokens in before:
        for run in runs.values():
            run.step(tokens)
    for name, run in runs.items():
        with shown() if name == options.profile else nullcontext():
            run.step(last)
    report(runs, options, rank, processes)
    if processes > 1:
        torch.distributed.destroy_process_group()


@contextmanager
def shown() -> Iterator[None]:
    """Prints the kernels that took most time on the GPU, and the operators that took most on the CPU."""
    with torch.profiler.profile() as profile:
        yield
    found = profile.key_averages()
    for by in ("self_device_time_total", "self_cpu_time_total"):
        print(found.table(by, row_limit=24, max_name_column_width=60))


def report(runs: dict[str, Run], options: argparse.Namespace, rank: int, processes: int) -> None:
    if rank:
        return
    last = options.steps // 2
    times = {name: median(run.times[last:]) for name, run in runs.items()}
    eager = runs["eager"].losses
    print(f"{torch.cuda.get_device_name()}, {processes} processes, {options.steps} steps")
    for name, run in runs.items():
        apart = max(abs(a - b) for a, b in zip(run.losses, eager, strict=True))
        step = f"step {times[name]:7.2f} ms ({times[name] / times['torch']:.3f} of torch)"
        print(f"{name:7} {step}  loss {run.losses[0]:.4f} -> {run.losses[-1]:.4f}, at most {apart:.4f} from eager")
    if options.json:
        found = {name: {"losses": run.losses, "times_ms": run.times} for name, run in runs.items()}
        about = {"processes": processes, "options": vars(options), "runs": found}
        options.json.write_text(json.dumps(about, default=str))


if __name__ == "__main__":
    main()
