//! What launchers say of a process, in its environment.
//!
//! Rule: whoever writes a capture looks at the same variables, in the same order.

/// Keys of the Process block, and the variables that say them: the first that there is counts.
pub const FACTS: [(&str, &[&str]); 3] = [
    (
        "world_size",
        &[
            "WORLD_SIZE",
            "SLURM_NTASKS",
            "OMPI_COMM_WORLD_SIZE",
            "PMI_SIZE",
            "FLUX_JOB_SIZE",
        ],
    ),
    (
        "local_rank",
        &[
            "LOCAL_RANK",
            "SLURM_LOCALID",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "FLUX_TASK_LOCAL_ID",
        ],
    ),
    (
        "job",
        &[
            "SLURM_JOB_ID",
            "PBS_JOBID",
            "LSB_JOBID",
            "FLUX_JOB_ID",
            "TORCHELASTIC_RUN_ID",
        ],
    ),
];

/// The rank, if it is a number; `var` looks a variable up.
pub fn rank(var: &impl Fn(&str) -> Option<String>) -> Option<String> {
    [
        "RANK",
        "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "FLUX_TASK_RANK",
    ]
    .iter()
    .find_map(|name| var(name))
    .filter(|rank| !rank.is_empty() && rank.len() < 12 && rank.bytes().all(|b| b.is_ascii_digit()))
}
