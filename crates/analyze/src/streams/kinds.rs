//! What a kernel is, by its name.
//!
//! Rule: patterns are documented in docs/concepts/streams.md. A name that no pattern fits is the job's own computing.

/// The names of a process's kernels by their ids, and what each does.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<(String, Does)>);

impl Names {
    /// Of names by id.
    pub fn new(names: &[String]) -> Names {
        Names(
            names
                .iter()
                .map(|name| (name.clone(), does(name)))
                .collect(),
        )
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The name; empty for an id that there is not.
    pub fn name(&self, id: u32) -> &str {
        self.0.get(id as usize).map_or("", |(name, _)| name)
    }

    /// What it does.
    pub fn does(&self, id: u32) -> Does {
        self.0
            .get(id as usize)
            .map_or(Does::Computes, |(_, does)| *does)
    }
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// The job's own work.
    Computes,
    /// One of NCCL's kernels.
    Nccl,
    /// Communication that NCCL does not know of, by this library.
    OtherCommunication(&'static str),
}

/// Parts of kernels' names, and the library that these are of.
pub const OTHERS: [(&str, &str); 15] = [
    (
        "cross_device_reduce",
        "vLLM's or SGLang's custom all-reduce",
    ),
    ("multimem_all_reduce", "PyTorch's symmetric memory"),
    ("one_shot_all_reduce", "PyTorch's symmetric memory"),
    ("two_shot_all_reduce", "PyTorch's symmetric memory"),
    ("symm_mem", "PyTorch's symmetric memory"),
    ("oneShotAllReduce", "TensorRT-LLM's custom all-reduce"),
    ("twoShotAllReduce", "TensorRT-LLM's custom all-reduce"),
    (
        "allreduce_fusion_kernel",
        "TensorRT-LLM's or FlashInfer's all-reduce",
    ),
    ("trtllm_allreduce", "FlashInfer's all-reduce"),
    ("moe_allreduce", "TensorRT-LLM's or FlashInfer's all-reduce"),
    ("quickreduce", "vLLM's quick reduce"),
    ("nvshmem", "NVSHMEM"),
    ("deep_ep::", "DeepEP"),
    ("mscclpp", "MSCCL++"),
    ("AllReduceKernelImpl", "XLA's own all-reduce"),
];

/// What the kernel of this name does.
pub fn does(name: &str) -> Does {
    if name.starts_with("nccl") {
        return Does::Nccl;
    }
    let other = OTHERS.iter().find(|(part, _)| name.contains(part));
    other.map_or(Does::Computes, |(_, library)| {
        Does::OtherCommunication(library)
    })
}

/// The function that one of NCCL's kernels carries out, as NCCL names it: `AllReduce` of `ncclDevKernel_AllReduce_Sum_f32_RING_LL`.
pub fn function(name: &str) -> &str {
    let mut words = name.split('_');
    match words.next() {
        Some(
            "ncclDevKernel" | "ncclKernel" | "ncclSymkDevKernel" | "ncclSymDevKernel" | "ncclSymk",
        ) => words.next().unwrap_or(name),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_name() {
        for (name, what, of) in [
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                Does::Nccl,
                "AllReduce",
            ),
            ("ncclDevKernel_SendRecv", Does::Nccl, "SendRecv"),
            ("ncclSymkDevKernel_AllGather_LL", Does::Nccl, "AllGather"),
        ] {
            assert_eq!((does(name), function(name)), (what, of));
        }
        assert_eq!(
            does("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_NNT"),
            Does::Computes
        );
        assert_eq!(
            does("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>"),
            Does::OtherCommunication("vLLM's or SGLang's custom all-reduce")
        );
        assert!(matches!(
            does("nvshmemi_barrier_threadgroup_kernel"),
            Does::OtherCommunication("NVSHMEM")
        ));
    }
}
