//! Why a text can't be read as a topology.

/// Why a text is no topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is in neither form.
    Other,
    /// It is XML, but not NCCL's, or not whole.
    Xml,
    /// It is NCCL's file of rings and trees.
    Graphs,
    /// It is a file for `NCCL_TOPO_FILE` that names no GPU and no card.
    Skeleton {
        /// PCI functions that are GPUs by their class.
        gpus: usize,
        /// PCI functions that are network cards by their class.
        cards: usize,
    },
    /// A row of the matrix has another number of links than its heading has devices.
    Row {
        /// The device whose row it is.
        device: String,
        /// Links in it.
        found: usize,
        /// Devices in the heading.
        expected: usize,
    },
    /// A GPU of the matrix has no row.
    NoRow {
        /// That GPU.
        device: String,
    },
    /// The legend has a card that the heading has not.
    Legend {
        /// That card.
        card: String,
    },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Unreadable::Other => write!(
                f,
                "expected the output of `nvidia-smi topo -m` or a file of NCCL_TOPO_DUMP_FILE, found \
                 something else"
            ),
            Unreadable::Xml => write!(
                f,
                "expected a whole file of NCCL_TOPO_DUMP_FILE, found XML that is another's or ends early"
            ),
            Unreadable::Graphs => write!(
                f,
                "expected a file of NCCL_TOPO_DUMP_FILE, found one of NCCL_GRAPH_DUMP_FILE: rings and trees"
            ),
            Unreadable::Skeleton { gpus: 0, cards: 0 } => write!(
                f,
                "expected GPUs in the file of NCCL_TOPO_DUMP_FILE, found none"
            ),
            Unreadable::Skeleton { gpus, cards } => write!(
                f,
                "expected a file of NCCL_TOPO_DUMP_FILE, found a skeleton for NCCL_TOPO_FILE: {gpus} GPUs \
                 and {cards} network cards by their PCI classes, without NVLinks and names; nothing can be \
                 said of its links"
            ),
            Unreadable::Row {
                device,
                found,
                expected,
            } => write!(
                f,
                "expected {expected} links in the row of {device} of the matrix, found {found}"
            ),
            Unreadable::NoRow { device } => {
                write!(f, "expected a row for each GPU of the matrix, found none for {device}")
            }
            Unreadable::Legend { card } => write!(
                f,
                "expected a column for each network card of the legend, found none for {card}"
            ),
        }
    }
}

impl std::error::Error for Unreadable {}
