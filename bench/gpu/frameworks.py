"""Steps of DeepSpeed and Megatron-core, as shapes of `jobs.py`. Both need their package installed.

Models have random weights, and nothing in a step knows of a profiler.
"""

import os


def zero3(job):
    """DeepSpeed's ZeRO stage 3 of the language model of `jobs.py`, with its default overlap."""
    os.environ.update(LOCAL_RANK=str(job.device.index), DS_BUILD_OPS="0")
    import deepspeed
    import jobs
    import torch

    a = job.args
    with job.device:
        model = jobs.language_model(a).to(torch.bfloat16)
    settings = {
        "train_micro_batch_size_per_gpu": a.batch,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "overlap_comm": True, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    data = torch.randn(a.batch, a.tokens, a.width, device=job.device, dtype=torch.bfloat16)

    def step(number):
        job.slow(number)
        engine.backward(engine(data).float().square().mean())
        engine.step()

    return step


def megatron(job, tensor=1, pipeline=1, pieces=1):
    """A GPT of Megatron-core: tensor × pipeline parallel, data parallel with the rest of the ranks."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.distributed import (
        DistributedDataParallel,
        DistributedDataParallelConfig,
        finalize_model_grads,
    )
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer import TransformerConfig

    a = job.args
    parallel_state.initialize_model_parallel(tensor, pipeline)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=a.layers,
        hidden_size=a.width,
        num_attention_heads=max(1, a.width // 128),
        tensor_model_parallel_size=tensor,
        pipeline_model_parallel_size=pipeline,
        pipeline_dtype=torch.bfloat16,
        params_dtype=torch.bfloat16,
        bf16=True,
        finalize_model_grads_func=finalize_model_grads,
    )
    vocabulary = 4096
    model = GPTModel(
        config=config,
        transformer_layer_spec=get_gpt_layer_local_spec(),
        vocab_size=vocabulary,
        max_sequence_length=a.tokens,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
    )
    model = model.to(job.device, torch.bfloat16)
    model = DistributedDataParallel(config, DistributedDataParallelConfig(overlap_grad_reduce=True), model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    words = torch.randint(vocabulary, (a.batch, a.tokens), device=job.device)
    places = torch.arange(a.tokens, device=job.device).expand(a.batch, -1)
    schedule = get_forward_backward_func()
    state = {"step": 0, "left": 0}

    def forward(_, model):
        if state["left"]:
            state["left"] -= 1
            job.slow(state["step"])
        losses = model(words, places, None, labels=words)
        return losses, lambda output: (output.float().mean(), {})

    def step(number):
        state.update(step=number, left=a.slow_pieces)
        model.zero_grad_buffer()
        schedule(
            forward_step_func=forward,
            data_iterator=None,
            model=[model],
            num_microbatches=pieces,
            seq_length=a.tokens,
            micro_batch_size=a.batch,
            forward_only=False,
        )
        for parameter in model.parameters():
            if parameter.main_grad is not None:
                parameter.grad = parameter.main_grad.to(parameter.dtype)
        optimizer.step()

    return step
