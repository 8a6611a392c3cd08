#!/usr/bin/env python3
"""Trains DenseNet-121 on synthetic pictures with DistributedDataParallel, as any script under torchrun does.

Nothing in it knows of a profiler. The options beyond --steps and --batch are --hosts, and ways for a job to
go wrong: a rank that is slow by a known time, dies, makes other calls than the rest, or whose network is slow
or stops.
"""

import argparse
import os
import signal
import statistics
import sys
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"  # multicast can take a shared host down


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=55)
    parser.add_argument("--batch", type=int, default=32, help="pictures per GPU (%(default)s)")
    parser.add_argument(
        "--hosts", type=int, default=1, help="simulated hosts: local ranks get one NCCL_HOSTID per host"
    )
    parser.add_argument("--no-destroy", action="store_true", help="end without destroy_process_group")
    parser.add_argument("--kill-rank", type=int)
    parser.add_argument(
        "--kill-step", type=int, default=20, help="SIGKILL of --kill-rank before this step (%(default)s)"
    )
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument(
        "--slow-ms", type=float, default=20, help="of --slow-rank in each step, before backward (%(default)s)"
    )
    parser.add_argument(
        "--slow-on", choices=["host", "gpu"], default="host", help="it sleeps, or its GPU has more to do"
    )
    parser.add_argument(
        "--slow-link",
        metavar="FILE",
        help=(
            "slow_link.c, built: the way out of --link-rank is slow (SLOW_LINK_MBPS) or "
            "stops (SLOW_LINK_STOP_MB)"
        ),
    )
    parser.add_argument("--link-rank", type=int, default=0)
    parser.add_argument("--wrong-rank", type=int)
    parser.add_argument(
        "--wrong-step", type=int, default=20, help="in which --wrong-rank goes wrong (%(default)s)"
    )
    parser.add_argument(
        "--wrong",
        choices=["skip", "order"],
        default="skip",
        help="it skips the AllReduce of the loss, or makes it after the AllGather that should follow it",
    )
    return parser.parse_args()


def busy(milliseconds, device):
    """A function that keeps the GPU busy for so long."""
    import torch

    matrix = torch.randn(2048, 2048, device=device)

    def rounds(n):
        for _ in range(n):
            torch.mm(matrix, matrix)

    rounds(50)
    torch.cuda.synchronize()
    began = time.perf_counter()
    rounds(500)
    torch.cuda.synchronize()
    return lambda n=round(500 * milliseconds / 1e3 / (time.perf_counter() - began)): rounds(n)


def goes_wrong():
    print("goes wrong now", file=sys.stderr, flush=True)


def share_loss(loss, losses, wrong):
    """Two calls after each step; the wrong rank skips the first, or makes it last."""
    import torch.distributed as dist

    mean = loss.detach().reshape(1).clone()
    if wrong:
        goes_wrong()
    else:
        dist.all_reduce(mean)
    dist.all_gather(losses, mean)
    if wrong == "order":
        dist.all_reduce(mean)


def main():
    args = options()
    local = int(os.environ["LOCAL_RANK"])
    if (
        args.slow_link
        and int(os.environ["RANK"]) == args.link_rank
        and os.environ.get("LD_PRELOAD") != args.slow_link
    ):
        os.environ["LD_PRELOAD"] = args.slow_link
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if args.hosts > 1:
        os.environ["NCCL_HOSTID"] = (
            f"simulated-host-{local * args.hosts // int(os.environ['LOCAL_WORLD_SIZE'])}"
        )

    import torch
    import torch.distributed as dist
    import torchvision
    from torch.nn.parallel import DistributedDataParallel

    device = torch.device("cuda", local % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.manual_seed(rank)

    model = DistributedDataParallel(
        torchvision.models.densenet121(weights=None).to(device), device_ids=[device.index]
    )
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures = torch.randn(args.batch, 3, 224, 224, device=device)
    labels = torch.randint(0, 1000, (args.batch,), device=device)

    slow = args.slow_ms if rank == args.slow_rank else 0
    work = busy(slow, device) if slow and args.slow_on == "gpu" else lambda: time.sleep(slow / 1e3)
    losses = [torch.empty(1, device=device) for _ in range(dist.get_world_size())]

    times = []
    for step in range(args.steps):
        if rank == args.kill_rank and step == args.kill_step:
            goes_wrong()
            os.kill(os.getpid(), signal.SIGKILL)
        torch.cuda.synchronize()
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(pictures), labels)
        if slow:
            work()
        loss.backward()
        if args.wrong_rank is not None:
            share_loss(
                loss, losses, args.wrong if (rank, step) == (args.wrong_rank, args.wrong_step) else None
            )
        optimizer.step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - began) * 1e3)

    if rank == 0:
        late = times[5:] or times
        print(
            f"median step {statistics.median(late):.1f} ms over {len(late)} steps, loss {loss.item():.3f}, "
            f"{dist.get_world_size()} ranks, {sum(times[5:]) / 1e3:.3f} s in all of them",
            flush=True,
        )
    if not args.no_destroy:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
