//! The job that this `ncclscope run` is one process of, when a launcher started it once per rank.
//!
//! Rule: instances share a capture folder only on evidence that they are the same job: equal [`Job::key`]s,
//! and a [`Job::member`] that no other instance has taken.

/// One rank's place in a job, as its launcher's variables tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The launcher's rank.
    pub rank: String,
    /// The same for all ranks of the job and for no other job of that launcher.
    pub key: String,
    /// The same for no other instance of the job: the rank, and the number of its torchrun restart.
    pub member: String,
}

impl Job {
    /// The innermost launcher in this environment that says which job and rank this is.
    ///
    /// `None` outside of one, and for a job of one task, which has nobody to share with.
    pub fn detect(var: impl Fn(&str) -> Option<String>) -> Option<Job> {
        let var = |name: &str| var(name).filter(|v| !v.is_empty());
        let job = |rank: &str, size: &str, key: Option<String>| {
            let rank = var(rank)?;
            if var(size).as_deref() == Some("1") {
                return None;
            }
            let restart = var("TORCHELASTIC_RESTART_COUNT").filter(|n| n != "0");
            let member = restart.map_or_else(|| rank.clone(), |n| format!("{rank}-restart-{n}"));
            Some(Job {
                rank,
                key: key?,
                member,
            })
        };
        let master = || Some(format!("{}:{}", var("MASTER_ADDR")?, var("MASTER_PORT")?));
        // A batch script has SLURM_PROCID=0 as well; only a step's tasks have siblings. The largest numbers
        // stand for the batch script itself and for interactive shells.
        let slurm = var("SLURM_JOB_ID")
            .zip(var("SLURM_STEP_ID"))
            .and_then(|(job, step)| {
                let requeue = var("SLURM_RESTART_COUNT")
                    .map_or_else(String::new, |n| format!("-requeue-{n}"));
                (step.parse::<u32>().ok()? < 0xffff_0000)
                    .then(|| format!("slurm-{job}.{step}{requeue}"))
            });
        // torchrun gives "none" when no --rdzv-id was set.
        let elastic = var("TORCHELASTIC_RUN_ID").map(|id| match id.as_str() {
            "none" => format!("torchrun-{}", master().unwrap_or_default()),
            id => format!("torchrun-{id}"),
        });
        let within_slurm = |key: Option<String>| key.or_else(|| slurm.clone());
        if elastic.is_some() {
            return job("RANK", "WORLD_SIZE", elastic);
        }
        let ompi = var("PMIX_NAMESPACE")
            .or_else(|| var("OMPI_MCA_ess_base_jobid"))
            .map(|id| format!("mpi-{id}"));
        let pmi = var("PMIX_NAMESPACE")
            .or_else(|| var("PMI_JOBID"))
            .map(|id| format!("mpi-{id}"));
        job(
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            within_slurm(ompi),
        )
        .or_else(|| job("PMI_RANK", "PMI_SIZE", within_slurm(pmi)))
        .or_else(|| {
            job(
                "FLUX_TASK_RANK",
                "FLUX_JOB_SIZE",
                var("FLUX_JOB_ID").map(|id| format!("flux-{id}")),
            )
        })
        .or_else(|| job("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", slurm.clone()))
        .or_else(|| job("RANK", "WORLD_SIZE", master().map(|m| format!("torch-{m}"))))
    }
}

/// The batch system's job id, for `%j`: as the recorder has it.
pub fn batch_id(var: impl Fn(&str) -> Option<String>) -> Option<String> {
    [
        "SLURM_JOB_ID",
        "PBS_JOBID",
        "LSB_JOBID",
        "FLUX_JOB_ID",
        "JOB_ID",
    ]
    .iter()
    .find_map(|name| var(name).filter(|v| !v.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(vars: &[(&str, &str)]) -> Option<(String, String)> {
        Job::detect(|name| {
            vars.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        })
        .map(|job| (job.key, job.member))
    }

    fn is(key: &str, member: &str) -> Option<(String, String)> {
        Some((key.to_owned(), member.to_owned()))
    }

    #[test]
    fn launchers_tell_their_job_and_rank() {
        let step = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "3"),
        ];
        assert_eq!(detect(&step), is("slurm-7.0", "3"));
        assert_eq!(
            detect(&[("FLUX_TASK_RANK", "1"), ("FLUX_JOB_ID", "f3")]),
            is("flux-f3", "1")
        );
        assert_eq!(
            detect(&[("OMPI_COMM_WORLD_RANK", "1"), ("PMIX_NAMESPACE", "a@1")]),
            is("mpi-a@1", "1")
        );
        let torch = [
            ("RANK", "2"),
            ("MASTER_ADDR", "n0"),
            ("MASTER_PORT", "29500"),
        ];
        assert_eq!(detect(&torch), is("torch-n0:29500", "2"));
    }

    #[test]
    fn torchrun_inside_srun_counts_its_own_ranks_and_restarts() {
        let vars = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "0"),
            ("RANK", "5"),
            ("TORCHELASTIC_RUN_ID", "x"),
            ("TORCHELASTIC_RESTART_COUNT", "2"),
        ];
        assert_eq!(detect(&vars), is("torchrun-x", "5-restart-2"));
    }

    #[test]
    fn batch_scripts_and_lone_tasks_share_with_nobody() {
        assert_eq!(
            detect(&[("SLURM_JOB_ID", "7"), ("SLURM_PROCID", "0")]),
            None
        );
        assert_eq!(
            detect(&[
                ("SLURM_JOB_ID", "7"),
                ("SLURM_STEP_ID", "4294967291"),
                ("SLURM_PROCID", "0")
            ]),
            None
        );
        let lone = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "1"),
        ];
        assert_eq!(detect(&lone), None);
        assert_eq!(detect(&[("PMI_RANK", "0")]), None);
    }
}
