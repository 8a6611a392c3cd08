//! How the ranks come to be: started here, one for each GPU, or by torchrun, srun or mpirun.
//!
//! Rule: what a launcher says of a process comes from the environment alone, so no MPI is needed.

use anyhow::{bail, Context, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The socket of a rank that was started here.
pub(crate) const LINK: &str = "NCCLSCOPE_BENCH_LINK";
/// Beside the port of torchrun's own store.
const PORT: u16 = 29_511;

/// A process of a job, as its launcher tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// Rank.
    pub rank: u32,
    /// Of how many.
    pub ranks: u32,
    /// Number on its host.
    pub local: u32,
    /// Host of rank 0, where it is known.
    pub address: Option<String>,
    /// Port of rank 0.
    pub port: u16,
    /// Names the job.
    pub job: String,
}

/// The variables of a launcher: rank, number of ranks, number on the host, ranks on the host, and the job's
/// name.
const LAUNCHERS: [[&str; 5]; 4] = [
    [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "TORCHELASTIC_RUN_ID",
    ],
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_NAMESPACE",
    ],
    [
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "PMI_JOBID",
    ],
    // The number of tasks of the step, which a batch script that is in no step does not have. Its list of
    // nodes tells the rest.
    [
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "",
        "SLURM_JOB_ID",
    ],
];

impl RankPlace {
    /// What the environment says; `None` where no launcher is.
    ///
    /// # Errors
    /// When it says what can't be, as a rank beyond their number: to start all ranks then would be wrong.
    pub fn detect(env: impl Fn(&str) -> Option<String>) -> Result<Option<RankPlace>> {
        let number = |name: &str| env(name)?.parse::<u32>().ok();
        let found = LAUNCHERS
            .iter()
            .find_map(|names| Some((names, env(names[0])?, env(names[1])?)));
        let Some(([rank, ranks, local, locals, job], said_rank, said_ranks)) = found else {
            return Ok(None);
        };
        let (rank, ranks) = match (said_rank.parse::<u32>(), said_ranks.parse::<u32>()) {
            (Ok(rank), Ok(ranks)) if rank < ranks => (rank, ranks),
            _ => bail!(
                "expected a rank in {rank} and a larger number of ranks in {ranks}, found `{said_rank}` and \
                 `{said_ranks}`\n  hint: outside of a launcher, unset both; --gpus N starts N ranks here \
                 whatever they say"
            ),
        };
        let one_host = || (number(locals) == Some(ranks)).then(|| "127.0.0.1".to_owned());
        let nodes = || first_node(&env("SLURM_STEP_NODELIST")?);
        let master: Option<u16> = env("MASTER_PORT").and_then(|p| p.parse().ok());
        Ok(Some(RankPlace {
            rank,
            ranks,
            local: number(local).unwrap_or(rank),
            address: env("MASTER_ADDR").or_else(one_host).or_else(nodes),
            port: master.map_or(PORT, |port| port.checked_add(1).unwrap_or(PORT)),
            job: env(job).unwrap_or_default(),
        }))
    }

    /// Rank 0's socket for the others.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn listen(&self) -> Result<TcpListener> {
        // The first takes both kinds of addresses; where the kernel has no IPv6 there is the second.
        let any = [
            (Ipv6Addr::UNSPECIFIED, self.port).into(),
            (Ipv4Addr::UNSPECIFIED, self.port).into(),
        ];
        TcpListener::bind::<&[SocketAddr]>(&any).with_context(|| {
            format!(
                "port {} of rank 0 can't be used\n  hint: --port P names another",
                self.port
            )
        })
    }

    /// Connects to rank 0, which may not be there yet.
    ///
    /// # Errors
    /// When it is not known where that is, or it does not answer in time.
    pub fn connect(&self, patience: Duration) -> Result<File> {
        let Some(address) = &self.address else {
            bail!(
                "rank {} can't tell where rank 0 is\n  hint: set MASTER_ADDR to rank 0's host for all ranks \
                 (mpirun -x MASTER_ADDR=HOST)",
                self.rank
            );
        };
        let end = Instant::now() + patience;
        loop {
            match TcpStream::connect((address.as_str(), self.port)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(OwnedFd::from(stream).into());
                }
                Err(error) if Instant::now() > end => {
                    return Err(error).with_context(|| {
                        format!(
                            "rank {} can't reach rank 0 at {address}:{}\n  hint: MASTER_ADDR is rank 0's \
                             host; --port P names another port",
                            self.rank, self.port
                        )
                    });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

/// The first host of a list of Slurm's: `node[03-06,9],login` begins with `node03`.
fn first_node(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let number: String = match rest.strip_prefix('[') {
        Some(range) => range.chars().take_while(char::is_ascii_digit).collect(),
        None => String::new(),
    };
    let suffix = match rest.split_once(']') {
        Some((range, suffix)) if range.starts_with('[') => {
            suffix.split(',').next().unwrap_or_default()
        }
        _ => "",
    };
    let name = format!("{prefix}{number}{suffix}");
    (!name.is_empty()).then_some(name)
}

/// Starts this program again as rank `rank`, with the lead's end of its socket.
///
/// # Errors
/// When it can't be started.
pub fn start(rank: u32, ranks: u32, nccl: Option<&OsStr>) -> Result<(Child, File)> {
    let (ours, theirs) = UnixStream::pair().context("a pair of sockets")?;
    let program = std::env::current_exe().context("this program's own path")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    if let Some(path) = nccl {
        command.arg("--nccl").arg(path);
    }
    command
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", ranks.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("LOCAL_WORLD_SIZE", ranks.to_string())
        .env(LINK, theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        // NCCL's log goes to stdout, where the table is.
        .stdout(Stdio::from(io::stderr()));
    let fd = theirs.as_raw_fd();
    // SAFETY: only calls that are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            // Keep this one socket, and never outlive the lead.
            if libc::fcntl(fd, libc::F_SETFD, 0) < 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                // The terminal's ^C is for the lead, which writes what it has and ends us.
                || libc::signal(libc::SIGINT, libc::SIG_IGN) == libc::SIG_ERR
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = command.spawn().context("a rank can't be started")?;
    Ok((child, OwnedFd::from(ours).into()))
}

/// The socket of a rank that [`start`] started; `None` in any other process.
pub fn inherited() -> Option<File> {
    let fd = std::env::var(LINK).ok()?.parse().ok()?;
    // What this process starts is no rank.
    std::env::remove_var(LINK);
    // SAFETY: the number is of the socket that `start` left open for us, and nobody else has taken it: this
    // is called once.
    Some(unsafe { File::from_raw_fd(fd) })
}

/// Two ends of a socket within this process.
///
/// # Errors
/// When there are no sockets.
pub fn pair() -> Result<(File, File)> {
    let (a, b) = UnixStream::pair().context("a pair of sockets")?;
    Ok((OwnedFd::from(a).into(), OwnedFd::from(b).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<RankPlace>> {
        RankPlace::detect(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn detect(variables: &[(&str, &str)]) -> Option<RankPlace> {
        find(variables).expect("sensible variables")
    }

    #[test]
    fn torchrun_tells_where_rank_0_is() {
        let place = detect(&[
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node-a"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "run"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
        ])
        .expect("a launcher");
        assert_eq!((place.rank, place.ranks, place.local), (5, 8, 1));
        assert_eq!(place.address.as_deref(), Some("node-a"));
        assert_eq!((place.port, &place.job[..]), (29501, "run"));
    }

    #[test]
    fn srun_tells_it_by_its_list_of_nodes() {
        let place = detect(&[
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[007-008]"),
        ]);
        assert_eq!(place.and_then(|p| p.address).as_deref(), Some("gpu007"));
        // A batch script is no step.
        assert_eq!(
            detect(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]),
            None
        );
    }

    #[test]
    fn lists_of_nodes() {
        for (list, first) in [
            ("node1", "node1"),
            ("node1,node2", "node1"),
            ("a[3,5-7],b", "a3"),
            ("rack1-n[01-16]-gpu", "rack1-n01-gpu"),
        ] {
            assert_eq!(first_node(list).as_deref(), Some(first), "{list}");
        }
        assert_eq!(first_node(""), None);
    }

    #[test]
    fn rank_0_is_reached_by_both_kinds_of_addresses() {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let place = |address: &str| RankPlace {
            rank: 0,
            ranks: 2,
            local: 0,
            address: Some(address.to_owned()),
            port: free.as_ref().expect("a port").port(),
            job: String::new(),
        };
        let listener = place("").listen().expect("a port");
        let ipv6 = listener.local_addr().expect("one").is_ipv6();
        for address in ["127.0.0.1", "::1"].iter().take(1 + usize::from(ipv6)) {
            let met = place(address).connect(Duration::from_secs(5));
            assert!(met.is_ok(), "{address}: {met:?}");
        }
        // Taken is taken, by whichever kind.
        assert!(place("").listen().is_err());
    }

    #[test]
    fn mpirun_needs_an_address_between_hosts() {
        let place = detect(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")])
            .expect("a launcher");
        let refused = place.connect(Duration::ZERO).expect_err("no address");
        assert!(refused.to_string().contains("MASTER_ADDR"), "{refused}");
        assert_eq!(detect(&[]), None);
    }

    #[test]
    fn ranks_of_one_host_need_no_address() {
        let mut variables = vec![
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        let address = |variables: &[_]| detect(variables).and_then(|place| place.address);
        assert_eq!(address(&variables).as_deref(), Some("127.0.0.1"));
        variables.push(("MASTER_ADDR", "node-a"));
        assert_eq!(address(&variables).as_deref(), Some("node-a"));
        variables[1] = ("OMPI_COMM_WORLD_SIZE", "4");
        variables.pop();
        assert_eq!(address(&variables), None);
    }

    #[test]
    fn variables_that_can_not_be_are_no_job_of_our_own() {
        for (rank, ranks) in [("2", "2"), ("abc", "2"), ("0", ""), ("-1", "4")] {
            let refused = find(&[("RANK", rank), ("WORLD_SIZE", ranks)]).expect_err("no place");
            let said = format!("found `{rank}` and `{ranks}`");
            assert!(refused.to_string().contains(&said), "{refused}");
        }
        assert_eq!(detect(&[("RANK", "2")]), None);
    }
}
