"""Whole programs of kinds that `jobs.py` and `patterns.py` lack, as shapes of `jobs.py`.

Nothing here needs a package besides torch.
"""

import random


def recommender(job):
    """Embedding tables on all ranks: an exchange for each, there and back, and DDP of what is dense."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    a, n, device = job.args, job.world, job.device
    rows = a.batch * 512

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gives, takes):
            ctx.gives, ctx.takes = gives, takes
            y = x.new_empty(sum(takes), x.shape[1])
            dist.all_to_all_single(y, x.contiguous(), takes, gives)
            return y

        @staticmethod
        def backward(ctx, g):
            back = g.new_empty(sum(ctx.gives), g.shape[1])
            dist.all_to_all_single(back, g.contiguous(), ctx.gives, ctx.takes)
            return back, None, None

    tables = nn.ModuleList(nn.Embedding(20_000, a.width) for _ in range(a.layers)).to(device)
    sizes = [a.width * (1 + len(tables)), 4 * a.width, 2 * a.width, a.width, 1]
    pairs = zip(sizes, sizes[1:])
    dense = nn.Sequential(*(part for i, o in pairs for part in (nn.Linear(i, o), nn.ReLU()))).to(device)
    dense = DistributedDataParallel(dense, device_ids=[device.index])
    parameters = [*tables.parameters(), *dense.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-4)
    features = torch.randn(rows, a.width, device=device)
    ids = torch.randint(20_000, (a.layers, rows), device=device)
    split = [rows // n] * n

    def step(number):
        job.slow(number)
        found = [Exchange.apply(table(some), split, split) for table, some in zip(tables, ids)]
        dense(torch.cat([features, *found], 1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def reinforcement(job):
    """Tokens by a tensor-parallel model, two steps of DDP on them, and the weights go to the first model."""
    import jobs
    import torch
    import torch.distributed as dist

    a = job.args
    train = jobs.ddp(job)
    token = jobs.decode(job)
    weights = torch.zeros(16 << 20, device=job.device, dtype=torch.bfloat16)

    def step(number):
        with torch.no_grad():
            for _ in range(24):
                token()
        rewards = torch.zeros(a.batch, device=job.device)
        dist.all_reduce(rewards)
        rewards.sum().item()
        for _ in range(2):
            train(number)
        dist.broadcast(weights, 0)

    return step


def local(job):
    """Local SGD: eight steps without communication, then the mean of all parameters."""
    import jobs
    import torch
    import torch.distributed as dist

    model = jobs.language_model(job.args).to(job.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = jobs.data_of(job, torch.bfloat16)

    def step(number):
        job.slow(number)
        model(data).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number % 8 == 7:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
                parameter.data.div_(job.world)

    return step


def sharded(job):
    """Tensor and sequence parallel by PyTorch's DTensor."""
    import torch
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    a = job.args
    mesh = init_device_mesh("cuda", (job.world,))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(a.width)
            self.mlp = nn.Sequential(
                nn.Linear(a.width, 4 * a.width), nn.GELU(), nn.Linear(4 * a.width, a.width)
            )

        def forward(self, x):
            return x + self.mlp(self.norm(x))

    model = nn.Sequential(*(Block() for _ in range(a.layers))).to(job.device, torch.bfloat16)
    plan = {
        "norm": SequenceParallel(),
        "mlp": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "mlp.0": ColwiseParallel(),
        "mlp.2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    for block in model:
        parallelize_module(block, mesh, plan)
    data = torch.randn(a.batch, a.tokens // job.world, a.width, device=job.device, dtype=torch.bfloat16)
    data = DTensor.from_local(data, mesh, [Shard(1)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)

    def step(number):
        job.slow(number)
        model(data).to_local().float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def uneven(job):
    """DDP on sequences whose length differs from rank to rank and step to step: late in turns."""
    import jobs
    import torch

    a = job.args
    model, data = jobs.replicated(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    lengths = random.Random(job.rank)

    def step(number):
        job.slow(number)
        length = 128 * lengths.randint(1, a.tokens // 128)
        model(data[:, :length]).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def vision(job):
    """Convolutions with batch statistics over all ranks, which wait for each other in each layer."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    a = job.args

    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            one = lambda: (nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
            self.inner = nn.Sequential(*one(), nn.ReLU(), *one())

        def forward(self, x):
            return torch.relu(x + self.inner(x))

    width = a.width // 8
    model = nn.Sequential(
        nn.Conv2d(3, width, 7, stride=4, padding=3),
        *(Residual(width) for _ in range(a.layers)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 1000),
    )
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).to(job.device)
    model = DistributedDataParallel(model, device_ids=[job.device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images = torch.randn(4 * a.batch, 3, 224, 224, device=job.device)
    labels = torch.randint(1000, (4 * a.batch,), device=job.device)

    def step(number):
        job.slow(number)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def zero1(job):
    """DDP whose optimizer is divided over ranks: each sends the parameters that it updated."""
    import jobs
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, data = jobs.replicated(job)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4)

    def step(number):
        job.slow(number)
        model(data).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def careful(job):
    """A loop as many are: gradients clipped, the mean loss read in each step, an evaluation now and then."""
    import jobs
    import torch
    import torch.distributed as dist

    model, data = jobs.replicated(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step(number):
        job.slow(number)
        loss = model(data).float().square().mean()
        jobs.clipped(model, optimizer, loss)
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        mean.item()
        if number % 30 == 29:
            with torch.no_grad():
                for _ in range(4):
                    score = model.module(data).float().square().mean()
            dist.all_reduce(score)
            score.item()

    return step


def graphed(job):
    """A whole step of training in a CUDA graph, with the AllReduces of its gradients."""
    import jobs
    import torch
    import torch.distributed as dist

    model = jobs.language_model(job.args).to(job.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    data = jobs.data_of(job, torch.bfloat16)

    def train():
        model(data).float().square().mean().backward()
        for block in model:
            flat = torch.cat([p.grad.reshape(-1) for p in block.parameters()])
            dist.all_reduce(flat)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()

    def step(number):
        job.slow(number)
        graph.replay()

    return step


def hybrid(job):
    """FSDP within halves of the ranks, and copies of the model between the halves."""
    import jobs
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cuda", (2, job.world // 2), mesh_dim_names=("copies", "parts"))
    model = jobs.language_model(job.args).to(job.device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in [*model, model]:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return jobs.trained(job, model, jobs.data_of(job))


def disaggregated(job):
    """Serving in halves: one reads prompts and sends their keys and values, the other writes tokens."""
    import jobs
    import torch
    import torch.distributed as dist

    a, half = job.args, job.world // 2
    model = jobs.language_model(a).to(job.device, torch.bfloat16)
    data = jobs.data_of(job, torch.bfloat16)
    keys = torch.zeros(a.layers, 2, *data.shape, device=job.device, dtype=torch.bfloat16)

    def step(number):
        job.slow(number)
        with torch.no_grad():
            if job.rank < half:
                model(data)
                dist.send(keys, job.rank + half)
                return
            dist.recv(keys, job.rank - half)
            for _ in range(16):
                model(data[:, :64])

    return step


def adversarial(job):
    """Two models under DDP that train in turns on each other's output."""
    import jobs
    import torch

    (maker, noise), (critic, truth) = jobs.replicated(job), jobs.replicated(job)
    makes, judges = (torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True) for m in (maker, critic))

    def step(number):
        job.slow(number)
        made = maker(noise)
        (critic(made.detach()).float().mean() - critic(truth).float().mean()).backward()
        judges.step()
        judges.zero_grad(set_to_none=True)
        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        (-critic.module(made).float().mean()).backward()
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        makes.step()
        makes.zero_grad(set_to_none=True)

    return step


def delayed(job):
    """Gradients are reduced beside the whole next step, which ends by taking those of the step before."""
    import jobs
    import torch
    import torch.distributed as dist

    model = jobs.language_model(job.args).to(job.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = jobs.data_of(job, torch.bfloat16)
    under_way = []

    def step(number):
        job.slow(number)
        model(data).float().square().mean().backward()
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        if under_way:
            work, before = under_way.pop()
            work.wait()
            begin = 0
            for parameter in model.parameters():
                parameter.grad.copy_(before[begin : begin + parameter.numel()].view_as(parameter))
                begin += parameter.numel()
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        under_way.append((dist.all_reduce(flat, async_op=True), flat))

    return step


def halo(job):
    """A solver on a grid in slabs: edges go to the neighbours, and the residual of each step is read."""
    import torch
    import torch.distributed as dist

    a, n = job.args, job.world
    field = torch.rand(8 * a.width, 8 * a.width, device=job.device)
    sides = ((job.rank - 1, 1, 0), (job.rank + 1, -2, -1))
    neighbours = [(r, here, edge) for r, here, edge in sides if 0 <= r < n]

    def step(number):
        nonlocal field
        job.slow(number)
        for _ in range(a.layers):
            calls = [dist.P2POp(dist.isend, field[here], r) for r, here, _ in neighbours]
            calls += [dist.P2POp(dist.irecv, field[edge], r) for r, _, edge in neighbours]
            for work in dist.batch_isend_irecv(calls):
                work.wait()
            new = field.clone()
            inner = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
            new[1:-1, 1:-1] = inner / 4
            field, before = new, field
        residual = (field - before).square().sum()
        dist.all_reduce(residual)
        residual.item()

    return step
