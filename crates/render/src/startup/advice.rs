//! What helps against a failed or slow start: by the warning of NCCL, or by the phase that took long.

use setup::warnings::{Gravity, Warning};

/// What helps if a warning has one of these words. The first that fits counts.
const AFTER: [(&[&str], &str); 11] = [
    (
        &["shared memory segment", "/dev/shm", "posix_fallocate", "shm_open"],
        "`/dev/shm` is full or too small: `df -h /dev/shm` shows it. Give a container more (`docker run \
         --shm-size=8g` or `--ipc=host`; in Kubernetes an emptyDir with `medium: Memory` there), and remove \
         `/dev/shm/nccl-*` of jobs that are dead.",
    ),
    (
        &["Duplicate GPU detected"],
        "Two ranks use one GPU. Each process must choose its own before it makes the communicator \
         (`torch.cuda.set_device(local_rank)`, or CUDA_VISIBLE_DEVICES), and a host can't have more ranks \
         than GPUs.",
    ),
    (
        &["no socket interface found", "no usable interface"],
        "NCCL_SOCKET_IFNAME names no interface that is up. `ip -br addr` lists them: unset the variable, or \
         name one that reaches the other hosts.",
    ),
    (
        &["socketStartConnect", "socketPollConnect", "No route to host", "connect returned"],
        "This host does not reach that address. See that NCCL_SOCKET_IFNAME names an interface of a network \
         that all hosts share (not docker0), and that no firewall is between them: NCCL uses any TCP port.",
    ),
    (
        &["ibv_modify_qp"],
        "The network cards don't reach each other. With RoCE, NCCL_IB_GID_INDEX must name the right address \
         (`show_gids`); NCCL_IB_HCA can leave out cards that are on other networks.",
    ),
    (
        &["ibv_create_cq", "ibv_create_qp", "ibv_reg_mr"],
        "A network card can't lock memory or has none left: `ulimit -l` must be unlimited, in a container by \
         `--ulimit memlock=-1`.",
    ),
    (
        &["Got completion from peer", "Got completion with"],
        "A transfer over InfiniBand or RoCE did not arrive. See `ibstat` and the kernel's log on both hosts, \
         and with RoCE NCCL_IB_GID_INDEX. The other process may have ended before, too.",
    ),
    (
        &["driver version is insufficient", "not supported in the installed CUDA driver"],
        "The driver is older than the CUDA that this NCCL was built for: `nvidia-smi` names the newest CUDA \
         that it runs.",
    ),
    (
        &["P2P is disabled between NVLINK", "peer access is not supported"],
        "`nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s` show what is broken. \
         NCCL_IGNORE_DISABLED_P2P=1 goes on without these links.",
    ),
    (
        &["Message truncated", "wrong type", "mismatch in rank count", "wrong magic"],
        "Processes of two versions of NCCL or of two jobs met. All ranks need one version (each prints `NCCL \
         version`), and the port of the rendezvous must be free.",
    ),
    (
        &["Too many open files"],
        "The process may not open more files: `ulimit -n` must be larger.",
    ),
];

/// What helps after a warning.
pub(super) fn after_warning(warning: &Warning) -> String {
    if warning.is_out_of_memory() {
        return "Leave NCCL more of the GPU's memory: start it before the program takes the rest, or give the \
                program's own pool less. `ncclscope memory FILE` says what each communicator takes, if \
                NCCL_DEBUG_SUBSYS has ALLOC."
            .to_owned();
    }
    if warning.gravity() == Gravity::Consequence {
        let who = match warning.lost_peer() {
            Some(peer) => format!("the process on {peer}"),
            None => "the other process".to_owned(),
        };
        return format!(
            "See what {who} said last: it ended or failed before, and this follows from it."
        );
    }
    let fits = |parts: &[&str]| parts.iter().any(|part| warning.text.contains(part));
    let known = AFTER.iter().find(|(parts, _)| fits(parts));
    let known = known.map(|(_, advice)| format!("{advice} "));
    format!(
        "{}Later warnings may come from ranks that lost this one.",
        known.unwrap_or_else(|| "Begin with this warning. ".to_owned())
    )
}

/// What helps against a long phase.
pub(super) fn phase_advice(phase: &str) -> Option<&'static str> {
    let advice = match phase {
        "kernels" => {
            "NCCL's library may hold no code for this GPU, and the driver then compiles it at each start. \
             Use an NCCL that was built for this GPU (`cuobjdump --list-elf libnccl.so.2` lists what it \
             holds), keep CUDA_MODULE_LOADING=LAZY, which is the default, and keep the compiled code \
             (CUDA_CACHE_PATH on a disk that stays, CUDA_CACHE_MAXSIZE large enough)."
        }
        "bootstrap" => {
            "The ranks meet over TCP. See that NCCL_SOCKET_IFNAME names a fast interface, and that no rank \
             is late for other reasons: the table has each rank's phases before it."
        }
        "topo" => {
            "NCCL reads /sys and asks NVML. Persistence mode of the driver (`nvidia-smi -pm 1`) makes NVML \
             fast, and NCCL_TOPO_FILE can hold what NCCL finds."
        }
        "graphs" => "NCCL_GRAPH_FILE can hold what NCCL finds, if all nodes are alike.",
        "connections" => {
            "NCCL_RUNTIME_CONNECT=1, the default from 2.22 on, connects at the first call that needs it."
        }
        _ => return None,
    };
    Some(advice)
}
