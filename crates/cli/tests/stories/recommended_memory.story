# NCCL's buffers take a twentieth of a GPU's memory or more: which GPU, and what makes them smaller. On a GPU with more memory they
# are left alone, and so they are where the GPU's memory is not known.
ranks 2
cuda
comm tp ranks 0..1
comm dp ranks 0..1
all_reduce 1MiB
all_reduce 1MiB comm=tp
all_reduce 1MiB comm=dp
sleep 300ms
--- FAKE_NVML_MIB=400 NCCLSCOPE_NVML=$PLUGINS/libfake_nvml.so NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 6, ABI v5
2| ncclscope: capture in capture: 2 processes, 6 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '.recommendations[] | .rule, .subject, (.action | .[:60]), .gain_us'
"nccl_memory"
"nccl_memory"
"Make fewer communicators, or split them with `splitShare`, w"
null
--- ncclscope memory capture --json | jq -c '.gpus[] | .communicators, .gpu_bytes / 1048576, .total_bytes / 1048576'
3
36
400
3
36
400
--- rm -r capture; FAKE_NVML_MIB=800 NCCLSCOPE_NVML=$PLUGINS/libfake_nvml.so NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 6, ABI v5
2| ncclscope: capture in capture: 2 processes, 6 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '[.recommendations[] | .rule | select(. == "nccl_memory")]'
[]
--- rm -r capture; NCCLSCOPE_NVML=none NCCLSCOPE_NCCL_LOG=on ncclscope run -o capture -- fake-nccl play job
announced 6, ABI v5
2| ncclscope: capture in capture: 2 processes, 6 calls; next: ncclscope report capture
--- ncclscope report capture --json | jq -c '[.recommendations[] | .rule | select(. == "nccl_memory")]'
[]
