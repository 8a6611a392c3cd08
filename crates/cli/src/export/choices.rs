//! What `ncclscope export` can be asked for: formats and tables.

use anyhow::bail;
use clap::builder::PossibleValue;
use clap::ValueEnum;
use render::dataset::Key;
use render::table::Table;
use std::path::Path;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Chrome Trace Event JSON with a slice per call; compressed with gzip unless the file's name ends in
    /// `.json`
    Chrome,
    /// A table as Parquet: calls, one folder per communicator or as `--partition` says; or another `--table`
    Parquet,
    /// Perfetto trace with a slice per call, compressed with gzip
    Perfetto,
    /// OTF2 archive with a region per call, for Vampir, Scalasca and other HPC tools
    Otf2,
    /// CUBE4 profile: time, waiting and bytes by communicator, operation and GPU, for CubeGUI
    Cube,
    /// A table as comma-separated values: calls, or another `--table`
    Csv,
    /// One JSON object for each profiler callback, with every field; needs a capture made with
    /// `--mode callbacks`. Or another `--table`
    Jsonl,
}

/// Ends of file names, without `.gz`, and what they promise.
const NAMES: [(&str, Format); 10] = [
    ("json", Format::Chrome),
    ("pftrace", Format::Perfetto),
    ("perfetto-trace", Format::Perfetto),
    ("parquet", Format::Parquet),
    ("otf2", Format::Otf2),
    ("cubex", Format::Cube),
    ("csv", Format::Csv),
    ("jsonl", Format::Jsonl),
    ("ndjson", Format::Jsonl),
    ("perfetto", Format::Perfetto),
];

impl Format {
    /// The format that was asked for, or else the one that the file's name promises.
    pub fn of(asked: Option<Format>, output: Option<&Path>) -> anyhow::Result<Format> {
        let named = output.and_then(Format::of_name);
        match (asked, named, output) {
            (Some(asked), Some(named), Some(path)) if asked != named => bail!(
                "`--to {}`: expected a file name for it, found `{}`, which says {named}\
                 \n  hint: leave `--to` out, or name another file",
                asked,
                path.display()
            ),
            (Some(asked), ..) => Ok(asked),
            (None, Some(named), _) => Ok(named),
            (None, None, Some(path)) => bail!(
                "`{}`: expected a name that ends in a format, such as `.pftrace` or `.csv`\
                 \n  hint: or choose a format with `--to`",
                path.display()
            ),
            (None, None, None) => bail!(
                "expected a format\n  hint: `--to perfetto`, or a file such as `-o run.pftrace`"
            ),
        }
    }

    /// What the end of a file's name promises.
    pub fn of_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let (_, end) = name.rsplit_once('.')?;
        let named = NAMES.iter().find(|(known, _)| *known == end);
        named.map(|(_, format)| *format)
    }

    /// The end of a file's name.
    pub fn extension(self) -> &'static str {
        let named = NAMES.iter().find(|(_, format)| *format == self);
        named.map_or("", |(end, _)| end)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// One table, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    One(Table),
    All,
}

impl ValueEnum for Tables {
    fn value_variants<'a>() -> &'a [Tables] {
        const ALL: [Tables; Table::ALL.len() + 1] = {
            let mut all = [Tables::All; Table::ALL.len() + 1];
            let mut at = 0;
            while at < Table::ALL.len() {
                all[at] = Tables::One(Table::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Tables::All => ("all", "A file for each of them that has rows, in a folder"),
            Tables::One(table) => (table.name(), about(*table)),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// A column that names folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The communicator
    Communicator,
    /// The host
    Host,
    /// The day in UTC, as in `day=2026-11-27`
    Day,
    /// The hour in UTC, as in `hour=2026-11-27T14`
    Hour,
}

impl By {
    /// What it is called where tables are written.
    pub fn key(self) -> Key {
        match self {
            By::Communicator => Key::Communicator,
            By::Host => Key::Host,
            By::Day => Key::Day,
            By::Hour => Key::Hour,
        }
    }
}

fn about(table: Table) -> &'static str {
    match table {
        Table::Calls => "A row for each NCCL call of a rank; the default of parquet and csv",
        Table::Operations => "A row for each function, size and communicator",
        Table::Arrivals => {
            "A row for each rank of each operation that has a GPU time on every rank"
        }
        Table::Steps => "A row for each step of a process",
        Table::Ranks => "A row for each process and GPU: time in NCCL",
        Table::Findings => "A row for each finding of the report",
        Table::Account => {
            "A row for each process and GPU: work, waiting and transfer in the time of the steps"
        }
        Table::Graphs => "A row for all CUDA graphs with the same NCCL calls",
        Table::GraphLaunches => "A row for each launch of a CUDA graph with NCCL calls",
        Table::Kernels => "A row for each kernel, copy and fill in kernel windows",
        Table::Samples => "A row for each value that the node sampler read",
        Table::Switches => {
            "A row for each time in which a thread that the node sampler watched was off its CPU"
        }
        Table::Mpi => "A row for each time in which a thread was inside of MPI",
        Table::Events => {
            "A row for each profiler callback; needs a capture made with `--mode callbacks`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_says_the_format() {
        let of = |to, name: &str| Format::of(to, Some(Path::new(name))).ok();
        assert_eq!(of(None, "a/run.json.gz"), Some(Format::Chrome));
        assert_eq!(of(None, "run.pftrace"), Some(Format::Perfetto));
        assert_eq!(of(None, "calls.csv.gz"), Some(Format::Csv));
        assert_eq!(of(None, "calls"), None);
        assert_eq!(of(Some(Format::Parquet), "calls"), Some(Format::Parquet));
        // The name and the option say different things.
        assert_eq!(of(Some(Format::Perfetto), "run.json"), None);
        assert_eq!(Format::of(None, None).ok(), None);
    }

    #[test]
    fn every_key_can_be_chosen_by_its_name() {
        let keys = By::value_variants().iter().map(|by| by.key());
        assert_eq!(keys.collect::<Vec<_>>(), Key::ALL);
        for by in By::value_variants() {
            let name = by
                .to_possible_value()
                .map(|value| value.get_name().to_owned());
            assert_eq!(name.as_deref(), Some(by.key().name()));
        }
    }

    #[test]
    fn every_format_has_an_end_of_name() {
        for format in Format::value_variants() {
            assert_eq!(
                Format::of_name(Path::new(&format!("x.{}", format.extension()))),
                Some(*format)
            );
        }
    }
}
