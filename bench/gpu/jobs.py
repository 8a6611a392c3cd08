#!/usr/bin/env python3
"""Training and serving jobs of many shapes, with random weights and data, each with a known way to be slow.

    jobs.py SHAPE [OPTIONS]   # one job on this host's GPUs, one process per rank; prints one JSON line
    jobs.py --plan FILE       # one job per line: NAME [VARIABLE=VALUE…] SHAPE [OPTIONS]

Nothing in a job knows of a profiler: one is loaded by the environment, as in any program. `wall_s` is the
time of the steps after the warm-up, between two synchronisations of all ranks. The truth of a slowed job is
its difference to the same job beside it without `--slow-rank`.

shapes: ddp fsdp2 tensor (tensor-parallel decode in a CUDA graph) eager (the same without a graph)
        pipeline (1F1B) grid (tensor × data parallel, small steps)
        accumulation (DDP that reduces every fourth backward pass) experts (two all-to-alls a layer)
        compiled (torch.compile in mode reduce-overhead) idle (no step)
        zero3 (DeepSpeed) megatron (tensor × data parallel) megatron_pipeline (two stages, 1F1B)
        captures (a graph is captured in every step)
        fsdp1 interleaved (1F1B, two stages a rank) ring (ring attention) routed (experts with a router)
        checkpoints (DDP, rank 0 writes one every 25 steps) loader (DDP that waits for data)
        serve (graphs of several batch sizes, prompts in between) micro (DDP with two micro-batches)
        sequence (tensor × sequence parallel) keys (a ring of keys and values in grouped sends)
        recommender (embedding tables on all ranks) reinforcement (tokens, training, weights)
        local (local SGD) sharded (DTensor) uneven (late in turns) vision (SyncBatchNorm) zero1
        careful (reads the loss in each step) graphed (a whole step in a CUDA graph)
        hybrid (FSDP in halves) disaggregated (prompts and tokens on different ranks) adversarial
        delayed (gradients of the step before) halo (a solver that exchanges edges)
        launches (what calls of CUDA and NCCL take of the host's time)

`gpu_ms` are the 10th percentile and the median of the steps, by CUDA events.

With `--wrong` the job hangs: one rank goes wrong in a step and says so on stderr.
"""

import argparse
import datetime
import gc
import importlib
import json
import os
import shlex
import signal
import socket
import statistics
import sys
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast can take a shared host down


def options(words):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=sorted(SHAPES))
    parser.add_argument("--ranks", type=int, default=0, help="default: one per GPU")
    parser.add_argument("--gpus", help="the GPUs to use, as in CUDA_VISIBLE_DEVICES")
    parser.add_argument(
        "--hosts", type=int, default=1, help="simulated hosts: NCCL uses sockets between them"
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8, help="sequences per GPU")
    parser.add_argument("--tokens", type=int, default=1024, help="per sequence")
    parser.add_argument(
        "--sync-every", type=int, default=0, help="read the loss every so many steps, as training loops do"
    )
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument("--slow-ms", type=float, default=30)
    parser.add_argument("--slow-on", choices=["host", "gpu", "launches"], default="host")
    parser.add_argument("--slow-from", type=int, default=0, help="first slow step")
    parser.add_argument("--slow-every", type=int, default=1)
    parser.add_argument(
        "--slow-pieces", type=int, default=1, help="pipeline: so many micro-batches of a step are slow"
    )
    parser.add_argument(
        "--slow-link", help="slow_link.c, built: the way out of --link-rank is slow (SLOW_LINK_MBPS)"
    )
    parser.add_argument("--link-rank", type=int, default=0)
    parser.add_argument("--wrong", choices=sorted(WRONGS), help="each step ends with two more calls of NCCL")
    parser.add_argument("--wrong-rank", type=int, default=0)
    parser.add_argument("--wrong-step", type=int, default=50)
    parser.add_argument(
        "--timeout", type=float, default=600, help="after so many seconds of a hang, PyTorch ends the job"
    )
    parser.add_argument("--as-rank", help=argparse.SUPPRESS)
    parser.add_argument(
        "--torch-profiler", help="record steps 20 to 31 with torch.profiler into this file, rank by rank"
    )
    parser.add_argument("--torch-profiler-rank", type=int, help="only this rank's steps (all ranks)")
    parser.add_argument("--end", choices=["destroy", "exit", "kill"], default="destroy")
    return parser.parse_args(words)


def busy(milliseconds, device, size=4096):
    """A function that gives the GPU so much more to do, in kernels that fill it.

    A product of matrices of 4096 rows takes a GPU ten times as long as a host takes to launch it, and one of
    2048 rows hardly longer: then the host has as much more to do.
    """
    import torch

    matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)

    def rounds(n):
        for _ in range(n):
            torch.mm(matrix, matrix)

    rounds(50)
    torch.cuda.synchronize()
    began = time.perf_counter()
    rounds(1000)
    torch.cuda.synchronize()
    n = round(1000 * milliseconds / 1e3 / (time.perf_counter() - began))
    return lambda: rounds(n)


def language_model(args):
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.heads = max(1, width // 128)
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(
                4 * width, width, bias=False
            )

        def forward(self, x):
            b, t, w = x.shape
            q, k, v = (
                y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1)
            )
            x = x + self.out(
                F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
            )
            return x + self.down(F.silu(self.up(self.norm2(x))))

    return nn.Sequential(*(Block(args.width) for _ in range(args.layers)))


class Job:
    """What a shape's function gets: the options, this rank, its device, and how it is slow."""

    def __init__(self, args, rank, world, device):
        self.args, self.rank, self.world, self.device = args, rank, world, device
        self.slow = lambda step: None
        self.host_us = {}
        if rank == args.slow_rank:
            sleep = lambda: time.sleep(args.slow_ms / 1e3)
            sizes = {"gpu": 4096, "launches": 2048}
            size = sizes.get(args.slow_on)
            work = busy(args.slow_ms, device, size) if size else sleep
            slow_at = lambda step: step >= args.slow_from and (step - args.slow_from) % args.slow_every == 0
            self.slow = lambda step: work() if slow_at(step) else None


def trained(job, model, data, passes=1):
    """One step of training as a function of its number. Of several passes, DDP reduces beside the last."""
    import contextlib
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(number):
        job.slow(number)
        for left in reversed(range(passes)):
            with model.no_sync() if left else contextlib.nullcontext():
                loss = model(data).float().square().mean()
                loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if job.args.sync_every and number % job.args.sync_every == 0:
            loss.item()

    return step


def clipped(model, optimizer, loss):
    """Ends a step of training whose gradients have a limit to their norm."""
    import torch

    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def data_of(job, dtype=None):
    import torch

    a = job.args
    return torch.randn(a.batch, a.tokens, a.width, device=job.device, dtype=dtype)


def replicated(job):
    """The language model under DDP, and its data."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(
        language_model(job.args).to(job.device, torch.bfloat16), device_ids=[job.device.index]
    )
    return model, data_of(job, torch.bfloat16)


def ddp(job, passes=1):
    return trained(job, *replicated(job), passes)


def experts(job):
    """A layer sends tokens to experts on all ranks and has them back. Gradients are reduced at the end."""
    import torch
    import torch.distributed as dist

    a = job.args

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            dist.all_to_all_single(y, x)
            return y

        @staticmethod
        def backward(ctx, g):
            back = torch.empty_like(g)
            dist.all_to_all_single(back, g.contiguous())
            return back

    model = language_model(a).to(job.device, torch.bfloat16)
    data = data_of(job, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)

    def step(number):
        job.slow(number)
        y = data
        for layer in model:
            y = Exchange.apply(layer(Exchange.apply(y)))
        y.float().square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in model[0].parameters()])
        dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def fsdp2(job):
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = language_model(job.args).to(job.device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return trained(job, model, data_of(job))


def decode(job):
    """One token of a tensor-parallel model: per layer two AllReduces of batch × width."""
    import torch
    import torch.distributed as dist

    a, n = job.args, job.world
    make = lambda *shape: torch.randn(*shape, device=job.device, dtype=torch.bfloat16) * 0.02
    layers = [
        (
            make(a.width, 3 * a.width // n),
            make(a.width // n, a.width),
            make(a.width, 4 * a.width // n),
            make(4 * a.width // n, a.width),
        )
        for _ in range(a.layers)
    ]
    x = make(a.batch, a.width)

    def token():
        y = x
        for qkv, out, up, down in layers:
            z = torch.tanh(y @ qkv)[:, : a.width // n] @ out
            dist.all_reduce(z)
            y = torch.nn.functional.rms_norm(y + z, (a.width,))
            z = torch.nn.functional.silu(y @ up) @ down
            dist.all_reduce(z)
            y = torch.nn.functional.rms_norm(y + z, (a.width,))
        return y

    return token


def tensor(job):
    import torch

    token = decode(job)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            token()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token()

    def step(number):
        job.slow(number)
        graph.replay()

    return step


def captures(job):
    """Captures a graph of one token in each step, and launches it once."""
    import torch

    token = decode(job)
    for _ in range(3):
        token()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()

    def step(number):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            token()
        graph.replay()
        torch.cuda.synchronize()

    return step


def eager(job):
    token = decode(job)

    def step(number):
        job.slow(number)
        token()

    return step


def compiled(job):
    import torch
    import torch.distributed._functional_collectives as funcol
    import torch.distributed as dist

    a, n = job.args, job.world
    make = lambda *shape: torch.randn(*shape, device=job.device, dtype=torch.bfloat16) * 0.02
    layers = [(make(a.width, 4 * a.width // n), make(4 * a.width // n, a.width)) for _ in range(a.layers)]
    x = make(a.batch, a.width)
    group = dist.group.WORLD

    @torch.compile(mode="reduce-overhead")
    def token(y):
        for up, down in layers:
            y = torch.tanh(y + funcol.all_reduce(torch.nn.functional.silu(y @ up) @ down, "sum", group))
        return y

    def step(number):
        job.slow(number)
        with torch.no_grad():
            token(x)

    return step


def pipeline(job):
    import torch
    from torch import nn
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    a = job.args
    a.layers = max(1, a.layers // job.world)
    stage_module = language_model(a).to(job.device, torch.bfloat16)
    pieces = 4 * job.world
    example = torch.randn(a.batch // 1, a.tokens, a.width, device=job.device, dtype=torch.bfloat16)
    stage = PipelineStage(
        stage_module, job.rank, job.world, job.device, input_args=(example,), output_args=(example,)
    )
    schedule = Schedule1F1B(stage, pieces, loss_fn=lambda out, target: out.float().square().mean())
    whole = torch.randn(a.batch * pieces, a.tokens, a.width, device=job.device, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(stage_module.parameters(), lr=1e-4, fused=True)
    return in_stages(job, stage_module, schedule, whole, optimizer)


def in_stages(job, module, schedule, whole, optimizer):
    """One step of a pipeline; the late rank is late in the first micro-batches of this module."""
    original = module.forward
    state = {"step": 0, "left": 0}

    def forward(*inputs):
        if state["left"]:
            state["left"] -= 1
            job.slow(state["step"])
        return original(*inputs)

    module.forward = forward

    def step(number):
        state.update(step=number, left=job.args.slow_pieces)
        if job.rank == 0:
            schedule.step(whole)
        elif job.rank == job.world - 1:
            schedule.step(target=whole)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def grid(job):
    """Tensor × data parallel: tensor groups of two if there are four ranks or more, else one data group."""
    import torch
    import torch.distributed as dist

    a, n = job.args, job.world
    across = 2 if n >= 4 else 1
    tensor_groups = [dist.new_group(list(range(i, i + across))) for i in range(0, n, across)]
    data_groups = [dist.new_group(list(range(i, n, across))) for i in range(across)]
    tensor_group, data_group = tensor_groups[job.rank // across], data_groups[job.rank % across]

    class Reduce(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x = x.clone()
            dist.all_reduce(x, group=tensor_group)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    w = a.width
    weights = [
        torch.nn.Parameter(torch.randn(w, w // across, device=job.device) * 0.02) for _ in range(a.layers)
    ]
    backs = [
        torch.nn.Parameter(torch.randn(w // across, w, device=job.device) * 0.02) for _ in range(a.layers)
    ]
    optimizer = torch.optim.SGD(weights + backs, lr=1e-5)
    x = torch.randn(a.batch, w, device=job.device)

    def step(number):
        job.slow(number)
        y = x
        for up, down in zip(weights, backs):
            y = torch.tanh(y + Reduce.apply(torch.relu(y @ up) @ down))
        y.square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in weights + backs])
        dist.all_reduce(flat, group=data_group)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if a.sync_every and number % a.sync_every == 0:
            float(y[0, 0])

    return step


def launches(job):
    """Times the host's part of launches, AllReduces, events and replays, in `job.host_us`."""
    import torch
    import torch.distributed as dist

    x, y = torch.zeros(64, device=job.device), torch.zeros(64, device=job.device)
    data = torch.zeros(1 << 18, device=job.device)
    event, side, graph = torch.cuda.Event(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            y.add_(1)

    def wait():
        event.record()
        event.wait(side)

    calls = {
        "launch": (200, lambda: x.add_(1)),
        "all_reduce": (4, lambda: dist.all_reduce(data)),
        "wait": (20, wait),
        "replay": (5, graph.replay),
    }

    def step(number):
        for name, (n, call) in calls.items():
            began = time.perf_counter()
            for _ in range(n):
                call()
            job.host_us.setdefault(name, []).append((time.perf_counter() - began) / n * 1e6)
        if number % 4 == 0:
            torch.cuda.synchronize()

    return step


def quantiles(values, *shares):
    """Of the last four fifths, because windows begin a second after the job."""
    late = sorted(values[len(values) // 5 :])
    return [round(late[int(len(late) * share)], 3) for share in shares]


def endless():
    while True:
        pass


def endless_kernel():
    import torch

    torch.cuda._sleep(1 << 62)


def full_stream():
    """A GPU that doesn't come to an end, and a host that launches until the queue takes no more."""
    import torch

    endless_kernel()
    one = torch.zeros(1, device="cuda")
    while True:
        one += 1


# What the wrong rank does before the two calls that end its step. Those from `size` on change these calls.
WRONGS = {
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "left": lambda: os._exit(0),
    "loop": endless,
    "kernel": endless_kernel,
    "full": full_stream,
    "size": lambda: None,
    "order": lambda: None,
    "crossed": lambda: None,
    "sends": lambda: None,
    "skip": lambda: None,
    "graph": lambda: None,
    # The others make a communicator for another group, and this rank does not come.
    "group": endless,
}
# These make the two calls in the other order, and these leave the first one out.
TURNED, LEFT_OUT = ("order", "crossed", "sends"), ("skip", "graph")


def last_calls(job, data):
    """The two calls that end each step, of so many elements: of one group, or as `--wrong` needs them."""
    import torch
    import torch.distributed as dist

    wrong = job.args.wrong
    if wrong == "crossed":
        groups = [dist.new_group(), dist.new_group()]
        return [lambda n, group=group: dist.all_reduce(data[:n], group=group) for group in groups]
    if wrong == "sends":
        # What fits into NCCL's buffers is sent without a receiver.
        peer, data = job.rank ^ 1, torch.zeros(1 << 27, device=job.device)
        there = torch.zeros_like(data)
        pair = [lambda n: dist.send(data, peer), lambda n: dist.recv(there, peer)]
        return pair[:: 1 if job.rank < peer else -1]
    calls = [lambda n: dist.all_reduce(data[:n]), lambda n: dist.broadcast(data[:n], 0)]
    if wrong == "graph":
        calls[0](1 << 20)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            calls[0](1 << 20)
        calls[0] = lambda n: graph.replay()
    return calls


def ending(job, step):
    """A step that ends with two more calls of NCCL, in which the wrong rank does something else."""
    import torch
    import torch.distributed as dist

    a = job.args
    data = torch.zeros(1 << 21, device=job.device)
    calls = last_calls(job, data)

    def whole(number):
        step(number)
        is_wrong = (job.rank, number) == (a.wrong_rank, a.wrong_step)
        if is_wrong:
            print("goes wrong now", file=sys.stderr, flush=True)
            WRONGS[a.wrong]()
        if a.wrong == "group" and number == a.wrong_step:
            dist.new_group()
        n = 1 << 21 if is_wrong and a.wrong == "size" else 1 << 20
        order = calls[::-1] if is_wrong and a.wrong in TURNED else calls
        for call in order[1 if is_wrong and a.wrong in LEFT_OUT else 0 :]:
            call(n)
        torch.cuda.synchronize()

    return whole


def parts(times, n):
    """So many equal parts of a list, as far as it goes."""
    size = max(1, len(times) // n)
    return [times[i : i + size] for i in range(0, len(times) - size + 1, size)]


def of(module, name, **how):
    """A shape of another file here. What it needs, only its own jobs need."""

    def shape(job):
        return getattr(importlib.import_module(module), name)(job, **how)

    return shape


SHAPES = {
    "ddp": ddp,
    "accumulation": lambda job: ddp(job, passes=4),
    "experts": experts,
    "fsdp2": fsdp2,
    "tensor": tensor,
    "captures": captures,
    "eager": eager,
    "compiled": compiled,
    "pipeline": pipeline,
    "grid": grid,
    "launches": launches,
    "zero3": of("frameworks", "zero3"),
    "megatron": of("frameworks", "megatron", tensor=2, pieces=2),
    "megatron_pipeline": of("frameworks", "megatron", pipeline=2, pieces=8),
    **{
        name: of("patterns", name)
        for name in (
            "fsdp1",
            "ring",
            "interleaved",
            "checkpoints",
            "loader",
            "routed",
            "serve",
            "micro",
            "sequence",
            "keys",
        )
    },
    **{
        name: of("programs", name)
        for name in (
            "recommender",
            "reinforcement",
            "local",
            "sharded",
            "uneven",
            "vision",
            "zero1",
            "careful",
            "graphed",
            "hybrid",
            "disaggregated",
            "adversarial",
            "delayed",
            "halo",
        )
    },
    "idle": lambda job: lambda number: time.sleep(0.001),
}


def rank_main(args, rank, world, port):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_WORLD_SIZE=str(world),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    if args.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = args.gpus
    if args.hosts > 1:
        os.environ["NCCL_HOSTID"] = f"simulated-host-{rank * args.hosts // world}"
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.manual_seed(rank)
    limit = datetime.timedelta(seconds=args.timeout)
    dist.init_process_group("nccl", device_id=device, timeout=limit)
    job = Job(args, rank, world, device)
    step = SHAPES[args.shape](job)
    if args.wrong:
        step = ending(job, step)
    for number in range(args.warm_up):
        step(number)
    everyone = torch.zeros(1, device=device)

    def together():
        dist.all_reduce(everyone)
        torch.cuda.synchronize()

    together()
    marks = []

    def mark():
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()

    mark()
    times, began = [], time.perf_counter()
    profile = None
    for number in range(args.warm_up, args.warm_up + args.steps):
        if args.torch_profiler and number == 20 and args.torch_profiler_rank in (None, rank):
            # Without the CPU's activities, which slow the host so much that the GPU waits for it.
            profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            profile.__enter__()
        at = time.perf_counter()
        step(number)
        mark()
        if profile and number == 31:
            torch.cuda.synchronize()
            profile.__exit__(None, None, None)
            profile.export_chrome_trace(f"{args.torch_profiler}.{rank}.json")
            profile = None
        times.append((time.perf_counter() - at) * 1e3)
    if args.end == "kill":
        os.kill(os.getpid(), 9)
    together()
    wall = time.perf_counter() - began
    result = dict(
        shape=args.shape,
        ranks=world,
        steps=args.steps,
        wall_s=round(wall, 4),
        step_ms=round(wall / args.steps * 1e3, 4),
        host_step_ms=round(statistics.median(times), 4) if times else None,
        parts_ms=[round(statistics.mean(part), 4) for part in parts(times, 8)],
        gpu_ms=quantiles([a.elapsed_time(b) for a, b in zip(marks, marks[1:])], 0.1, 0.5) if times else None,
        slow_rank=args.slow_rank,
        slow_on=args.slow_on,
        **{f"{name}_us": quantiles(values, 0.05, 0.5) for name, values in job.host_us.items()},
    )
    if rank == 0:
        print(json.dumps(result), flush=True)
    if args.end == "destroy":
        # NCCL waits in its destroy for as long as a CUDA graph has calls of it.
        step = job = None
        gc.collect()
        dist.destroy_process_group()
    sys.stdout.flush()


def start(words):
    """Forks the ranks of a job; torch is in this process already, CUDA is not."""
    args = options(words)
    import torch  # noqa: F401

    if args.as_rank:
        rank_main(args, *map(int, args.as_rank.split(",")))
        return [0]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gpus = (
        len(args.gpus.split(",")) if args.gpus else len([f for f in os.listdir("/proc/driver/nvidia/gpus")])
    )
    world = args.ranks or gpus
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            status = 1
            if args.slow_link and rank == args.link_rank:
                # A library is only loaded before a program by a program that begins.
                os.environ["LD_PRELOAD"] = args.slow_link
                program = [sys.executable, os.path.abspath(__file__)]
                os.execv(sys.executable, [*program, *words, "--as-rank", f"{rank},{world},{port}"])
            try:
                rank_main(args, rank, world, port)
                status = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            sys.stderr.flush()
            if args.end == "destroy":
                # As a script that runs to its end: exit handlers run.
                sys.exit(status)
            os._exit(status)
        children.append(child)
    statuses = {}
    while len(statuses) < world:
        child, status = os.waitpid(-1, 0)
        statuses[child] = os.waitstatus_to_exitcode(status)
        if statuses[child] and len(statuses) == 1:
            # As launchers do: the others would wait for the dead one for ever.
            time.sleep(5)
            for other in children:
                if other != child:
                    os.kill(other, signal.SIGKILL)
    return [statuses[child] for child in children]


def main():
    if sys.argv[1:2] != ["--plan"]:
        sys.exit(max(map(abs, start(sys.argv[1:]))))
    import torch  # noqa: F401

    for line in open(sys.argv[2]):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        name, words = words[0], words[1:]
        environment = {}
        while words and "=" in words[0]:
            key, _, value = words.pop(0).partition("=")
            environment[key] = value
        print(name, end=" ", flush=True)
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            statuses = start(words)
            if any(statuses):
                print("exit", statuses, flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
