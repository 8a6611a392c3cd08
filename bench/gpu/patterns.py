"""Patterns of communication beyond plain training and decoding, as shapes of `jobs.py`.

Nothing here needs a package besides torch.
"""

import random
import time


def fsdp1(job):
    """The older FullyShardedDataParallel, block by block, with its own prefetching."""
    import jobs
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = jobs.language_model(job.args).to(job.device)
    kind = type(model[0])
    model = FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({kind}),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        device_id=job.device,
        use_orig_params=True,
    )
    return jobs.trained(job, model, jobs.data_of(job))


def ring(job):
    """Ring attention: a layer passes its keys and values on while it attends to those that it has."""
    import jobs
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    a, n = job.args, job.world
    after, before = (job.rank + 1) % n, (job.rank - 1) % n

    def pass_on(x, to, source):
        got = torch.empty_like(x)
        sends = [dist.P2POp(dist.isend, x, to), dist.P2POp(dist.irecv, got, source)]
        return got, dist.batch_isend_irecv(sends)

    class Begin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, state):
            ctx.state = state
            got, state["works"] = pass_on(x.contiguous(), after, before)
            return got

        @staticmethod
        def backward(ctx, _):
            for work in ctx.state["works"]:
                work.wait()
            return ctx.state["gradient"], None

    class End(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, state):
            ctx.state = state
            for work in state["works"]:
                work.wait()
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            state = ctx.state
            state["gradient"], state["works"] = pass_on(gradient.contiguous(), before, after)
            return gradient, None

    model = jobs.language_model(a).to(job.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    data = jobs.data_of(job, torch.bfloat16)

    def layer(block, x):
        b, t, w = x.shape
        parts = block.qkv(block.norm1(x)).chunk(3, -1)
        q, k, v = (y.view(b, t, block.heads, -1).transpose(1, 2) for y in parts)
        both, out = torch.stack((k, v)), 0
        for left in reversed(range(n)):
            state = {}
            coming = Begin.apply(both, state) if left else None
            out = out + F.scaled_dot_product_attention(q, both[0], both[1])
            both = End.apply(coming, state) if left else None
        x = x + block.out(out.transpose(1, 2).reshape(b, t, w))
        return x + block.down(F.silu(block.up(block.norm2(x))))

    def step(number):
        job.slow(number)
        y = data
        for block in model:
            y = layer(block, y)
        y.float().square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def interleaved(job):
    """A pipeline of two stages a rank (interleaved 1F1B)."""
    import jobs
    import torch
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

    a, n = job.args, job.world
    a.layers = max(1, a.layers // (2 * n))
    pieces = 4 * n
    example = torch.randn(a.batch, a.tokens, a.width, device=job.device, dtype=torch.bfloat16)
    modules = [jobs.language_model(a).to(job.device, torch.bfloat16) for _ in range(2)]
    stages = [
        PipelineStage(m, job.rank + i * n, 2 * n, job.device, input_args=(example,), output_args=(example,))
        for i, m in enumerate(modules)
    ]
    schedule = ScheduleInterleaved1F1B(
        stages, pieces, loss_fn=lambda out, target: out.float().square().mean()
    )
    whole = torch.randn(a.batch * pieces, a.tokens, a.width, device=job.device, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD([p for m in modules for p in m.parameters()], lr=1e-5)
    return jobs.in_stages(job, modules[0], schedule, whole, optimizer)


def checkpoints(job):
    """DDP whose rank 0 writes a checkpoint every 25 steps, while the others wait for it."""
    import jobs
    import torch

    train = jobs.ddp(job)
    state = torch.zeros(60 << 20, device=job.device)

    def step(number):
        train(number)
        if job.rank == 0 and number % 25 == 24:
            copy = state.cpu()
            torch.save(copy, "/dev/null")
            time.sleep(0.3)

    return step


def loader(job):
    """DDP whose steps wait for data: for an exponential time on each rank, and for longer on the late one."""
    import jobs

    a = job.args
    late, job.slow = job.rank == a.slow_rank and a.slow_on == "host", lambda step: None
    train, chance = jobs.ddp(job), random.Random(job.rank)

    def step(number):
        time.sleep(chance.expovariate(1 / 2e-3))
        if late:
            time.sleep(chance.expovariate(1e3 / a.slow_ms))
        train(number)

    return step


def routed(job):
    """Experts with a router: ranks tell each other how many tokens come, and hosts wait for these numbers."""
    import jobs
    import torch
    import torch.distributed as dist

    a, n = job.args, job.world
    chance = random.Random(job.rank)

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, outgoing, incoming):
            ctx.counts = outgoing, incoming
            y = x.new_empty(sum(incoming), x.shape[1])
            dist.all_to_all_single(y, x, incoming, outgoing)
            return y

        @staticmethod
        def backward(ctx, g):
            outgoing, incoming = ctx.counts
            back = g.new_empty(sum(outgoing), g.shape[1])
            dist.all_to_all_single(back, g.contiguous(), outgoing, incoming)
            return back, None, None

    model = jobs.language_model(a).to(job.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    data = jobs.data_of(job, torch.bfloat16)
    tokens = a.batch * a.tokens

    def step(number):
        job.slow(number)
        y = data
        for block in model:
            cuts = sorted(int(tokens * (i + chance.uniform(0.8, 1.2)) / n) for i in range(n - 1))
            outgoing = [b - c for c, b in zip([0, *cuts], [*cuts, tokens])]
            sent = torch.tensor(outgoing, device=job.device)
            got = torch.empty_like(sent)
            dist.all_to_all_single(got, sent)
            incoming = got.tolist()
            z = Exchange.apply(y.reshape(tokens, -1), outgoing, incoming)
            z = z + block.down(torch.nn.functional.silu(block.up(block.norm2(z))))
            y = y + Exchange.apply(z, incoming, outgoing).view_as(y)
        y.float().square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
        dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def serve(job):
    """A server: graphs of several batch sizes, prompts in between, and a host that reads each token."""
    import jobs
    import torch

    chance = random.Random(7)  # The same on all ranks.
    prompts, graphs, side = [], [], torch.cuda.Stream()
    for batch in (1, 2, 4, 8, 16, 256, 512, 1024):
        job.args.batch = batch
        token = jobs.decode(job)
        if batch >= 256:
            prompts.append(token)
            continue
        with torch.cuda.stream(side):
            for _ in range(3):
                token()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = token()
        graphs.append((graph, out, token))

    def step(number):
        job.slow(number)
        if chance.random() < 0.1:
            out = chance.choice(prompts)()
        else:
            graph, out, _ = chance.choice(graphs)
            graph.replay()
        out[0].argmax().item()
        until = time.perf_counter() + 2e-4
        while time.perf_counter() < until:
            pass

    return step


def micro(job):
    """DDP with two micro-batches, of which the second reduces, a norm of the gradients, and a metric."""
    import jobs
    import torch
    import torch.distributed as dist

    model, data = jobs.replicated(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(number):
        with model.no_sync():
            model(data).float().square().mean().backward()
        job.slow(number)
        loss = model(data).float().square().mean()
        jobs.clipped(model, optimizer, loss)
        dist.all_reduce(loss.detach())

    return step


def sequence(job):
    """Layers that are split by tensors and by sequences: all communication is on the computing stream."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    a, n = job.args, job.world
    random = lambda *shape: torch.randn(*shape, device=job.device, dtype=torch.bfloat16)
    ups = [random(a.width, 4 * a.width // n) / 64 for _ in range(a.layers)]
    downs = [random(4 * a.width // n, a.width) / 128 for _ in range(a.layers)]
    begin, whole = random(a.tokens * a.batch // n, a.width), random(a.tokens * a.batch, a.width)

    def step(number):
        x = begin
        for layer, (up, down) in enumerate(zip(ups, downs)):
            if layer == a.layers // 2:
                job.slow(number)
            dist.all_gather_into_tensor(whole, x)
            part = torch.empty_like(x)
            dist.reduce_scatter_tensor(part, torch.relu(whole @ up) @ down)
            x = F.layer_norm(x + part, (a.width,))

    return step


def keys(job):
    """Attention to the keys and values of all ranks, which go round in grouped sends, and one AllReduce."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    a, n = job.args, job.world
    shape = (3, a.batch, a.width // 64, a.tokens, 64)
    query, *own = torch.randn(shape, device=job.device, dtype=torch.bfloat16)
    gradients = torch.randn(40_000_000, device=job.device)
    after, before = (job.rank + 1) % n, (job.rank - 1) % n

    def step(number):
        both = own
        for layer in range(a.layers):
            if layer == a.layers // 2:
                job.slow(number)
            for left in reversed(range(n)):
                got = [torch.empty_like(x) for x in both]
                sends = [dist.P2POp(dist.isend, x, after) for x in both]
                receives = [dist.P2POp(dist.irecv, x, before) for x in got]
                works = dist.batch_isend_irecv(sends + receives) if left else []
                F.scaled_dot_product_attention(query, *both)
                for work in works:
                    work.wait()
                both = got if left else own
        dist.all_reduce(gradients)

    return step
