//! What a kernel is, by its name.
//!
//! Rule: patterns are documented in docs/concepts/streams.md, and a test holds them against it. A user says
//! more of them in the capture ([`tables::communication`]). A name that no pattern fits is the job's own
//! computing.

use tables::communication::Pattern;

/// The names of a process's kernels by their ids, and what each does.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<(String, Does)>);

impl Names {
    /// Of names by id. `more` are the user's patterns.
    pub fn new(names: &[String], more: &[Pattern]) -> Names {
        let names = names.iter();
        Names(names.map(|name| (name.clone(), does(name, more))).collect())
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
const OTHERS: [(&str, &str); 28] = [
    (
        "cross_device_reduce",
        "vLLM's or SGLang's custom all-reduce",
    ),
    ("quickreduce", "vLLM's quick reduce"),
    ("multimem_all_reduce", SYMMETRIC),
    ("multimem_one_shot", SYMMETRIC),
    ("multimem_all_gather", SYMMETRIC),
    ("one_shot_all_reduce", SYMMETRIC),
    ("two_shot_all_reduce", SYMMETRIC),
    ("symm_mem", SYMMETRIC),
    ("oneShotAllReduce", "TensorRT-LLM's custom all-reduce"),
    ("twoShotAllReduce", "TensorRT-LLM's custom all-reduce"),
    ("allreduce_fusion_kernel", FUSED),
    ("oneshotAllreduceFusionKernel", FUSED),
    ("twoshotAllreduceKernel", FUSED),
    ("moe_allreduce", FUSED),
    ("moefinalize_allreduce", FUSED),
    ("trtllm_allreduce", "FlashInfer's all-reduce"),
    ("moeA2ADispatchKernel", ALL_TO_ALL),
    ("moeA2ACombineKernel", ALL_TO_ALL),
    ("moeAllToAllKernel", ALL_TO_ALL),
    ("fusedMoeCommKernel", ALL_TO_ALL),
    ("nvshmem", "NVSHMEM"),
    ("deep_ep::", "DeepEP"),
    ("pplx::", "pplx-kernels"),
    ("mscclpp", "MSCCL++"),
    ("AllReduceKernelImpl", "XLA's own all-reduce"),
    ("all_reduce_start", "XLA's Triton collectives"),
    ("all_gather_start", "XLA's Triton collectives"),
    ("reduce_scatter_start", "XLA's Triton collectives"),
];
const SYMMETRIC: &str = "PyTorch's symmetric memory";
const FUSED: &str = "TensorRT-LLM's or FlashInfer's all-reduce";
const ALL_TO_ALL: &str = "TensorRT-LLM's or FlashInfer's MoE all-to-all";

/// The first of these parts of names and libraries that is in this name.
fn of_others<'p>(
    name: &str,
    parts: impl IntoIterator<Item = (&'p str, &'static str)>,
) -> Option<(&'p str, &'static str)> {
    let mut parts = parts.into_iter();
    parts.find(|(part, _)| name.contains(part))
}

/// The part of a kernel's name by which it is known to communicate beside NCCL.
pub fn communicating_part(name: &str) -> Option<&'static str> {
    of_others(name, OTHERS).map(|(part, _)| part)
}

/// What the kernel of this name does. `more` are the user's patterns, which come before ours.
pub fn does(name: &str, more: &[Pattern]) -> Does {
    if name.starts_with("nccl") {
        return Does::Nccl;
    }
    let more = more.iter().map(|p| (p.part.as_str(), p.library));
    of_others(name, more.chain(OTHERS)).map_or(Does::Computes, |(_, library)| {
        Does::OtherCommunication(library)
    })
}

/// The function that one of NCCL's kernels carries out, as NCCL names it: `AllReduce` of
/// `ncclDevKernel_AllReduce_Sum_f32_RING_LL`.
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
            assert_eq!((does(name, &[]), function(name)), (what, of));
        }
        assert_eq!(
            does("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_NNT", &[]),
            Does::Computes
        );
        assert_eq!(
            does(
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
                &[]
            ),
            Does::OtherCommunication("vLLM's or SGLang's custom all-reduce")
        );
        assert!(matches!(
            does("nvshmemi_barrier_threadgroup_kernel", &[]),
            Does::OtherCommunication("NVSHMEM")
        ));
    }

    #[test]
    fn the_user_s_patterns_come_before_ours() {
        let ours = Pattern {
            part: "cross_device".to_owned(),
            library: "ours",
        };
        let does = |name| super::does(name, std::slice::from_ref(&ours));
        let of_ours = Does::OtherCommunication("ours");
        assert_eq!(does("cross_device_reduce_2stage"), of_ours);
        assert_eq!(does("ncclDevKernel_cross_device"), Does::Nccl);
        assert_eq!(does("mscclpp_all"), Does::OtherCommunication("MSCCL++"));
    }

    #[test]
    fn patterns_are_documented() {
        let page = include_str!("../../../../docs/concepts/streams.md");
        for (part, library) in OTHERS {
            let row = page
                .lines()
                .find(|line| line.contains(&format!("`{part}`")));
            assert!(
                row.is_some_and(|row| row.contains(library)),
                "{part}: {library}"
            );
        }
    }
}
