#!/usr/bin/env python3
"""Training loops that belong to a framework: transformers' and Lightning's trainers, and JAX.

    trainers.py KIND [OPTIONS]    # one process per rank on this host; prints one JSON line, as jobs.py

Kinds: transformers (Trainer, a small Llama, DDP) lightning (Trainer, DDP) jax (data parallel under jit)
       jax_graphs (the same with all of a step in CUDA graphs)

Models have random weights. Nothing here knows of a profiler. `wall_s` is the time of the steps after the
warm-up, between two waits for the GPU. All ranks use the same GPU if there is only one.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast can take a shared host down


class Clock:
    """Takes the time of the steps, and makes one rank late in each."""

    def __init__(self, args, rank, wait, work):
        self.args, self.late, self.wait, self.work = args, rank == args.slow_rank, wait, work
        self.step, self.began, self.wall = 0, None, None

    def begin(self):
        if self.step == self.args.warm_up:
            self.wait()
            self.began = time.perf_counter()
        self.step += 1
        if self.late:
            self.work() if self.args.slow_on == "gpu" else time.sleep(self.args.slow_ms / 1e3)

    def end(self):
        self.wait()
        self.wall = time.perf_counter() - self.began


def torch_clock(args, rank):
    import jobs
    import torch

    device = torch.device("cuda", torch.cuda.current_device())
    work = jobs.busy(args.slow_ms, device) if rank == args.slow_rank and args.slow_on == "gpu" else None
    return Clock(args, rank, torch.cuda.synchronize, work)


def transformers(args, rank):
    import torch
    import transformers as hf

    shape = dict(num_hidden_layers=args.layers, hidden_size=args.width, intermediate_size=4 * args.width)
    n = args.width // 128
    heads = dict(num_attention_heads=n, num_key_value_heads=n, vocab_size=8192)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**shape, **heads)).to(torch.bfloat16)
    words = torch.randint(8192, (64, args.tokens))

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return args.batch * 2 * (args.steps + args.warm_up)

        def __getitem__(self, i):
            return {"input_ids": words[i % 64], "labels": words[i % 64]}

    clock = None

    class Late(hf.TrainerCallback):
        def on_step_begin(self, *_, **__):
            clock.begin()

    settings = hf.TrainingArguments(
        output_dir="/tmp/transformers",
        per_device_train_batch_size=args.batch,
        max_steps=args.steps + args.warm_up,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        bf16=True,
        disable_tqdm=True,
    )
    trainer = hf.Trainer(model=model, args=settings, train_dataset=Data(), callbacks=[Late()])
    clock = torch_clock(args, rank)
    trainer.train()
    clock.end()
    return clock


def lightning(args, rank):
    import jobs
    import lightning as L
    import torch

    clock = None

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = jobs.language_model(args)

        def training_step(self, batch, _):
            loss = self.model(batch).float().square().mean()
            self.log("loss", loss, sync_dist=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

        def on_train_batch_start(self, *_):
            clock.begin()

    data = torch.randn(64, args.tokens, args.width)

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return args.batch * 2 * (args.steps + args.warm_up)

        def __getitem__(self, i):
            return data[i % 64]

    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        num_nodes=args.ranks,
        strategy="ddp",
        precision="bf16-true",
        max_steps=args.steps + args.warm_up,
        log_every_n_steps=10,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    torch.cuda.set_device(0)
    clock = torch_clock(args, rank)
    loader = torch.utils.data.DataLoader(Data(), batch_size=args.batch)
    trainer.fit(Module(), loader)
    clock.end()
    return clock


def jax(args, rank, graphs=False):
    if graphs:
        os.environ["XLA_FLAGS"] = (
            "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUDNN,COLLECTIVES "
            "--xla_gpu_graph_min_graph_size=1"
        )
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.distributed.initialize(
        f"127.0.0.1:{args.port}", args.ranks, rank, local_device_ids=[0] if args.shared else None
    )
    mesh = Mesh(numpy.array(jax.devices()), ("data",))
    everywhere, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    w, n = args.width, args.batch * args.tokens
    keys = [jax.random.key(i) for i in range(args.layers)]
    make = lambda key, shape: jax.random.normal(key, shape, jnp.bfloat16) * 0.02
    weights = jax.jit(
        lambda: [(make(k, (w, 4 * w)), make(k, (4 * w, w))) for k in keys], out_shardings=everywhere
    )()
    local = numpy.random.default_rng(rank).standard_normal((n, w), dtype=numpy.float32)
    data = jax.make_array_from_process_local_data(split, local.astype(jnp.bfloat16))

    def loss(weights, x):
        for up, down in weights:
            x = x + jax.nn.silu(x @ up) @ down
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    @jax.jit
    def train(weights, x):
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda a, b: a - 1e-3 * b, weights, gradients), value

    matrix = jnp.ones((4096, 4096), jnp.bfloat16)

    @jax.jit
    def more(matrix, rounds):
        return jax.lax.fori_loop(0, rounds, lambda _, m: (m @ matrix) * 1e-4, matrix)

    more(matrix, 10).block_until_ready()
    began = time.perf_counter()
    more(matrix, 300).block_until_ready()
    rounds = max(1, round(300 * args.slow_ms / 1e3 / (time.perf_counter() - began)))
    state = {"weights": weights, "value": None}
    clock = Clock(
        args, rank, lambda: jax.block_until_ready(state["weights"]), lambda: more(matrix, rounds)
    )
    for number in range(args.warm_up + args.steps):
        clock.begin()
        state["weights"], state["value"] = train(state["weights"], data)
        if number % 10 == 9:
            float(state["value"])
    clock.end()
    return clock


KINDS = {
    "transformers": transformers,
    "lightning": lightning,
    "jax": jax,
    "jax_graphs": lambda args, rank: jax(args, rank, graphs=True),
}


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--shared", action="store_true", help="all ranks use the first GPU")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4, help="sequences per GPU")
    parser.add_argument("--tokens", type=int, default=512, help="per sequence")
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument("--slow-ms", type=float, default=20)
    parser.add_argument("--slow-on", choices=["host", "gpu"], default="host")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if "RANK" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        children = []
        for rank in range(args.ranks):
            local = 0 if args.shared else rank
            environment = dict(
                os.environ,
                RANK=str(rank),
                WORLD_SIZE=str(args.ranks),
                LOCAL_RANK="0",
                LOCAL_WORLD_SIZE="1",
                NODE_RANK=str(rank),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                CUDA_VISIBLE_DEVICES=str(local),
            )
            command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--port", str(port)]
            children.append(subprocess.Popen(command, env=environment))
        sys.exit(max(abs(child.wait()) for child in children))
    rank = int(os.environ["RANK"])
    clock = KINDS[args.kind](args, rank)
    if rank == 0:
        result = dict(shape=args.kind, ranks=args.ranks, steps=args.steps, wall_s=round(clock.wall, 4))
        result |= dict(step_ms=round(clock.wall / args.steps * 1e3, 4))
        print(json.dumps(result | dict(slow_rank=args.slow_rank, slow_on=args.slow_on)), flush=True)


if __name__ == "__main__":
    main()
