"""Records a training of Ray Train: `python train.py`. All nodes of the cluster need ncclscope at one path."""

from __future__ import annotations

import ncclscope


def recorded(folder: str) -> dict[str, dict[str, str]]:
    """The `runtime_env` by which all workers record into `folder`, which all nodes share."""
    return {"env_vars": {"NCCL_PROFILER_PLUGIN": ncclscope.plugin_path(), "NCCLSCOPE_OUT": folder}}


def train() -> None:
    """The training of one worker, whose process group Ray Train has made."""
    import torch
    import torch.distributed

    gradient = torch.ones(1 << 20, device="cuda")
    for _ in range(100):
        with ncclscope.step():
            torch.distributed.all_reduce(gradient)


if __name__ == "__main__":
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    # Not `ncclscope.record` in `train`: Ray Train makes the process group before it calls that.
    ray.init(runtime_env=recorded("/shared/captures/run-1"))
    TorchTrainer(train, scaling_config=ScalingConfig(num_workers=8, use_gpu=True)).fit()
