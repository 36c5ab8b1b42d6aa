"""The peer of `tessera bench step`: the same GPT-2 training step in PyTorch, as nanoGPT writes it.

Called with one argument, a JSON object: model sizes, warmup, steps, threads, mode (eager, compile), dtype (fp32, bf16).
Prints one line of JSON. The program carries this file; it is run as `python -c`.
"""
import contextlib
import json
import math
import resource
import sys
import time
import warnings

warnings.filterwarnings("ignore")

import torch
from torch import nn
from torch.nn import functional as F

MASK = (1 << 64) - 1


def random_token(index, vocabulary):
    """splitmix64 of the index: the same tokens as the other contenders'."""
    z = (index + 1) * 0x9E3779B97F4A7C15 & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return (z ^ (z >> 31)) % vocabulary


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        width = job["width"]
        self.heads = job["heads"]
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.attention_norm(x)).split(width, dim=2)
        )
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).contiguous().view(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.token = nn.Embedding(job["vocabulary"], job["width"])
        self.position = nn.Embedding(job["context"], job["width"])
        self.blocks = nn.ModuleList(Block(job) for _ in range(job["layers"]))
        self.norm = nn.LayerNorm(job["width"])
        self.head = nn.Linear(job["width"], job["vocabulary"], bias=False)
        self.head.weight = self.token.weight
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name.endswith(("projection.weight", "down.weight")):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * job["layers"]))
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def main(job):
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    model = Gpt(job)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
        lr=job["lr"],
        betas=(0.9, 0.95),
        fused=True,
    )
    forward = torch.compile(model) if job["mode"] == "compile" else model
    bf16 = torch.autocast("cpu", dtype=torch.bfloat16) if job["dtype"] == "bf16" else contextlib.nullcontext()
    row = job["context"] + 1
    tokens = torch.tensor([random_token(i, job["vocabulary"]) for i in range(job["batch"] * row)]).view(-1, row)
    ids, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with bf16:
            loss = forward(ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    for _ in range(job["warmup"]):
        step()
    times, losses = [], []
    for _ in range(job["steps"]):
        start = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"step_s": times, "loss": losses, "peak_rss_bytes": peak, "parts": {}, "parts_step_s": 0}))


main(json.loads(sys.argv[1]))
