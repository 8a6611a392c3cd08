//! What the node sampler of `ncclscope run` saw, node by node.
//!
//! A [`Node`] has [`Series`]: one figure of one GPU, process or device over time. The samplers of one host
//! that took over from each other are one node.
//!
//! Rule: times are ns of the node's own CLOCK_REALTIME, in ascending order. Nothing is filled in: a series
//! has the values that were read, at the times when they were.

use crate::files::{self, TRACE};
use crate::problem::Problem;
use crate::process::Process;
use capture::block::{self, BlockKind, Damage};
use capture::mark::MEMBERS;
use capture::samples::{kind, read_samples, read_series, SeriesKind};
use capture::switches::read_spans;
pub use capture::switches::{Off, LEAST_NS};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Values that are read of one node at most. They take 16 bytes each.
const MOST_VALUES: usize = 64 << 20;

/// A node, as its sampler saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its first file, relative to the capture.
    pub file: PathBuf,
    /// Host name, as processes on it have it.
    pub host: String,
    /// What the sampler wrote about itself, by key.
    pub facts: BTreeMap<String, String>,
    /// By name and what they are of.
    pub series: Vec<Series>,
    /// When watched threads were off their CPUs, thread by thread.
    pub switches: Vec<Switches>,
}

/// One figure over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// What it is of: a UUID, a pid, a device; empty for the node.
    pub of: String,
    /// When, ns since 1970, and the value.
    pub points: Vec<(i64, u64)>,
}

/// When a thread was off its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The thread, as `pid/tid/name`.
    pub of: String,
    /// From when to when it was watched, in order. Spans that touch are one.
    pub spans: Vec<(i64, i64)>,
    /// When it was off in these spans, in order; less than [`LEAST_NS`] is left out.
    pub off: Vec<Off>,
}

impl Switches {
    /// Its process and its number.
    pub fn thread(&self) -> Option<(u32, u32)> {
        let mut parts = self.of.splitn(3, '/');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// Its name, of 15 letters at most.
    pub fn name(&self) -> &str {
        self.of.splitn(3, '/').nth(2).unwrap_or("")
    }

    /// Whether it was watched from one moment to another.
    pub fn covers(&self, from: i64, to: i64) -> bool {
        let after = self.spans.partition_point(|span| span.0 <= from);
        after
            .checked_sub(1)
            .is_some_and(|at| to <= self.spans[at].1)
    }

    /// For how long it was off between two moments, ns: preempted, and after it slept.
    pub fn off_between(&self, from: i64, to: i64) -> [i64; 2] {
        let at = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
        let first = self.off.partition_point(|off| at(off.to) <= from);
        let mut sums = [0; 2];
        for off in self.off[first..].iter().take_while(|off| at(off.from) < to) {
            let inside = at(off.to).min(to) - at(off.from).max(from);
            sums[usize::from(!off.preempted)] += inside.max(0);
        }
        sums
    }

    /// Adds what was seen later.
    fn add(&mut self, (from, to): (i64, i64), off: &[Off]) {
        match self.spans.last_mut() {
            // A clock that was set back.
            Some(last) if from < last.1 => return,
            Some(last) if from == last.1 => last.1 = to,
            _ => self.spans.push((from, to)),
        }
        for off in off {
            match self.off.last_mut() {
                // The thread was off at the end of a reading.
                Some(last) if last.to == off.from && last.preempted == off.preempted => {
                    last.to = off.to;
                }
                _ => self.off.push(*off),
            }
        }
    }
}

impl Series {
    /// What the figure is, if this version knows it.
    pub fn kind(&self) -> Option<&'static SeriesKind> {
        kind(&self.name)
    }
}

impl Node {
    /// Leaves out what was seen at other times.
    pub(crate) fn keep(&mut self, span: &std::ops::Range<i64>) {
        if *span == (i64::MIN..i64::MAX) {
            return;
        }
        for series in &mut self.series {
            series.points.retain(|(at, _)| span.contains(at));
        }
        self.series.retain(|series| !series.points.is_empty());
        for thread in &mut self.switches {
            let at = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
            thread.spans.retain(|(from, _)| span.contains(from));
            thread.off.retain(|off| span.contains(&at(off.from)));
        }
        self.switches.retain(|thread| !thread.spans.is_empty());
    }

    /// A fact by key, if it is there and not empty.
    pub fn fact(&self, key: &str) -> Option<&str> {
        let value = self.facts.get(key).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// All series with this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.name == name)
    }

    /// The series with this name of this GPU, process or device.
    pub fn of(&self, name: &str, of: &str) -> Option<&Series> {
        let mut series = self.series.iter();
        series.find(|series| series.name == name && series.of == of)
    }

    /// The first and the last time of all series.
    pub fn span(&self) -> Option<(i64, i64)> {
        let ends = |series: &Series| Some((series.points.first()?.0, series.points.last()?.0));
        let spans = self.series.iter().filter_map(ends);
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// GPUs by UUID and name, in the order of NVML.
    pub fn gpus(&self) -> impl Iterator<Item = (&str, &str)> {
        let gpu = |index: usize| self.fact(&format!("gpu.{index}"));
        (0..)
            .map_while(gpu)
            .map(|text| text.split_once(' ').unwrap_or((text, "")))
    }
}

/// How many blocks the files of samples had when they were whole, by their names relative to the capture, as
/// each `ncclscope run` wrote at its end: `samples` of `capture.json`, and of the files in
/// [`MEMBERS`].
pub(crate) type Written = BTreeMap<String, u64>;

/// What `capture.json` of the capture at `root`, and the runs that joined it, say was written.
pub(crate) fn written(
    job: &serde_json::Value,
    root: &Path,
    problems: &mut Vec<Problem>,
) -> Written {
    let number =
        |(name, blocks): (&String, &serde_json::Value)| Some((name.clone(), blocks.as_u64()?));
    let of = |record: &serde_json::Value| {
        let files = record["samples"].as_object().into_iter().flatten();
        files.filter_map(number).collect::<Written>()
    };
    let mut written = of(job);
    let members = std::fs::read_dir(root.join(MEMBERS));
    for entry in members.into_iter().flatten().flatten() {
        if entry.metadata().is_ok_and(|meta| meta.len() == 0) {
            // A run that has not ended.
            continue;
        }
        match crate::job_of(&entry.path()) {
            Ok(record) => written.extend(record.as_ref().map(of).unwrap_or_default()),
            Err(problem) => problems.push(problem),
        }
    }
    written
}

/// Reads all files of samples below `root`. Hosts are named as in `processes`.
pub(crate) fn read(
    root: &Path,
    processes: &[Process],
    mut written: Written,
    problems: &mut Vec<Problem>,
) -> Vec<Node> {
    let mut nodes = Vec::new();
    for path in find(root) {
        let bytes = files::load(&path, TRACE, problems);
        let file = path.strip_prefix(root).unwrap_or(&path).to_owned();
        let name = file.to_string_lossy();
        let whole = written.remove(name.strip_suffix(".zst").unwrap_or(&name));
        nodes.push(parse(&bytes, &file, whole, problems));
    }
    problems.extend(written.into_keys().map(|name| Problem {
        file: name.into(),
        place: "the file".to_owned(),
        expected: "what the node sampler wrote".to_owned(),
        found: "no such file".to_owned(),
    }));
    join(nodes, processes)
}

/// All files of samples below `root`, in order.
pub(crate) fn find(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files::walk(root, 0, &mut Vec::new(), &mut |path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.unwrap_or("");
        if name
            .strip_suffix(".zst")
            .unwrap_or(name)
            .ends_with(".samples")
        {
            found.push(path.to_owned());
        }
    });
    found.sort();
    // What is being packed is there twice.
    let compressed = |path: &Path| {
        path.to_str()
            .and_then(|p| p.strip_suffix(".zst"))
            .map(PathBuf::from)
    };
    let whole: BTreeSet<PathBuf> = found.iter().cloned().collect();
    found.retain(|path| compressed(path).is_none_or(|path| !whole.contains(&path)));
    found
}

/// Puts what samplers of one node saw together. Hosts are named as in `processes`.
pub(crate) fn join(found: Vec<Node>, processes: &[Process]) -> Vec<Node> {
    let mut nodes: BTreeMap<(String, String), Node> = BTreeMap::new();
    for mut node in found {
        let (host, boot) = (node.facts.get("host"), node.facts.get("boot_id"));
        node.host = processes
            .iter()
            .find(|process| {
                process.facts.get("boot_id") == boot && process.facts.get("host") == host
            })
            .map_or_else(
                || host.cloned().unwrap_or_default(),
                |process| process.host.clone(),
            );
        let key = (node.host.clone(), boot.cloned().unwrap_or_default());
        match nodes.get_mut(&key) {
            Some(first) => first.append(node),
            None => {
                nodes.insert(key, node);
            }
        }
    }
    nodes.into_values().collect()
}

impl Node {
    /// Takes in what another sampler of this node saw.
    fn append(&mut self, other: Node) {
        for (key, value) in other.facts {
            self.facts.entry(key).or_insert(value);
        }
        for series in other.series {
            let known = self
                .series
                .iter_mut()
                .find(|s| s.name == series.name && s.of == series.of);
            match known {
                Some(known) => {
                    known.points.extend(series.points);
                    known.points.sort_unstable();
                }
                None => self.series.push(series),
            }
        }
        for later in other.switches {
            let known = self.switches.iter_mut().find(|s| s.of == later.of);
            match known {
                // Which of two samplers came first is not known from their names.
                Some(known) => {
                    known.spans.extend(later.spans);
                    known.spans.sort_unstable();
                    known.off.extend(later.off);
                    known.off.sort_unstable_by_key(|off| (off.from, off.to));
                }
                None => self.switches.push(later),
            }
        }
    }
}

/// What is read of one file, block by block.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    node: Node,
    /// By the number that a figure has in the file, its place in [`Node::series`].
    places: HashMap<u64, usize>,
    /// Likewise, its place in [`Node::switches`].
    threads: HashMap<u64, usize>,
    values: usize,
}

impl Gathered {
    /// Of this file, relative to the capture.
    pub(crate) fn new(file: &Path) -> Gathered {
        Gathered {
            node: Node {
                file: file.to_owned(),
                ..Node::default()
            },
            ..Gathered::default()
        }
    }

    /// Takes a block; false if it is not well formed.
    pub(crate) fn of_block(&mut self, block: &block::Block<'_>) -> bool {
        let Gathered {
            node,
            places,
            threads,
            values,
        } = self;
        match BlockKind::from_u16(block.kind) {
            Some(BlockKind::Process) => {
                let text = String::from_utf8_lossy(block.payload);
                let facts = text.lines().filter_map(|line| line.split_once('='));
                let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
                node.facts.extend(facts.map(owned));
                true
            }
            Some(BlockKind::Series) => read_series(block.payload, |id, name, of| {
                places.insert(id, node.series.len());
                node.series.push(Series {
                    name: name.to_owned(),
                    of: of.to_owned(),
                    points: Vec::new(),
                });
            })
            .is_some(),
            Some(BlockKind::Samples) => read_samples(block.payload, |id, at, value| {
                let Some(place) = places.get(&id).filter(|_| *values < MOST_VALUES) else {
                    return;
                };
                *values += 1;
                let points = &mut node.series[*place].points;
                let at = i64::try_from(at).unwrap_or(i64::MAX);
                // A clock that was set back between two blocks.
                if points.last().is_none_or(|last| last.0 <= at) {
                    points.push((at, value));
                }
            })
            .is_some(),
            Some(BlockKind::Switches) => read_spans(block.payload, |id, span, off| {
                *values = values.saturating_add(1 + off.len());
                let Some(place) = places.get(&id).filter(|_| *values < MOST_VALUES) else {
                    return;
                };
                let at = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
                let of = &node.series[*place].of;
                let next = node.switches.len();
                let known = *threads.entry(id).or_insert(next);
                if known == next {
                    node.switches.push(Switches {
                        of: of.clone(),
                        ..Switches::default()
                    });
                }
                node.switches[known].add((at(span.0), at(span.1)), off);
            })
            .is_some(),
            // The end, and kinds of later versions.
            _ => true,
        }
    }

    /// Forgets what was before a moment, ns since 1970.
    pub(crate) fn forget(&mut self, before: i64) {
        let mut values = 0;
        for series in &mut self.node.series {
            let old = series.points.partition_point(|point| point.0 < before);
            series.points.drain(..old);
            values += series.points.len();
        }
        let is_old = |time: u64| i64::try_from(time).unwrap_or(i64::MAX) < before;
        for switches in &mut self.node.switches {
            switches.spans.retain(|span| span.1 >= before);
            switches.off.retain(|off| !is_old(off.to));
            values += switches.spans.len() + switches.off.len();
        }
        self.values = values;
    }

    /// The node, as far as it is known.
    pub(crate) fn node(&self) -> Node {
        let mut node = self.node.clone();
        node.series.retain(|series| !series.points.is_empty());
        node
    }
}

/// One file, and how many blocks it has, if that is known.
fn parse(bytes: &[u8], file: &Path, whole: Option<u64>, problems: &mut Vec<Problem>) -> Node {
    let mut gathered = Gathered::new(file);
    let mut unsound = Vec::new();
    let mut problem = |place: String, expected: &str, found: &str| {
        unsound.push(Problem {
            file: file.to_owned(),
            place,
            expected: expected.to_owned(),
            found: found.to_owned(),
        });
    };
    let mut damaged = Vec::new();
    let mut blocks = 0u64;
    let each = |block: block::Block<'_>| {
        blocks += 1;
        if !gathered.of_block(&block) {
            problem(
                format!("block {}", block.number),
                "samples as the node sampler writes them",
                "something else",
            );
        }
    };
    block::read(bytes, each, |damage| damaged.push(damage));
    for damage in damaged {
        let (place, expected, found) = match damage {
            // The run was killed while it wrote.
            Damage::Truncated { .. } => continue,
            Damage::Format { found } => {
                ("its header".to_owned(), "a known format", found.to_string())
            }
            Damage::Payload { number, .. } => (
                format!("block {number}"),
                "its checksum",
                "damaged content".to_owned(),
            ),
            Damage::Missing { first, count } => (
                format!("block {first}"),
                "blocks without a gap",
                format!("{count} missing"),
            ),
            Damage::Skipped { at, bytes } => (
                format!("byte {at}"),
                "a block",
                format!("{bytes} bytes of something else"),
            ),
            Damage::FileHeader | Damage::Features { .. } => (
                "its header".to_owned(),
                "a sound header",
                "a damaged one".to_owned(),
            ),
        };
        problem(place, expected, &found);
    }
    if let Some(whole) = whole.filter(|whole| *whole > blocks) {
        let expected = format!("{whole} blocks");
        problem(
            "its end".to_owned(),
            &expected,
            &format!("{blocks} sound ones"),
        );
    }
    problems.extend(unsound);
    gathered.node()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capture::samples::{put_series, Samples};

    fn file() -> Vec<u8> {
        let mut bytes = block::file_header(9).to_vec();
        let mut number = 0;
        let mut add = |kind, payload: &[u8]| {
            let start = block::begin(&mut bytes);
            bytes.extend_from_slice(payload);
            block::finish(&mut bytes, start, kind, number);
            number += 1;
        };
        add(
            BlockKind::Process,
            b"host=node\nboot_id=b\ngpu.0=GPU-1 H200\n",
        );
        let mut payload = Vec::new();
        put_series(&mut payload, 0, "gpu_power_mw", "GPU-1");
        put_series(&mut payload, 1, "node_cpu_us", "");
        add(BlockKind::Series, &payload);
        for second in 0..3u64 {
            let mut samples = Samples::default();
            for tick in 0..10 {
                samples.tick(1_000_000_000 * second + 100_000_000 * tick);
                samples.put(0, 500_000 + tick);
            }
            samples.put(1, second);
            payload.clear();
            samples.encode(&mut payload);
            add(BlockKind::Samples, &payload);
        }
        bytes
    }

    #[test]
    fn a_file_that_ends_in_a_block_keeps_all_before() {
        let bytes = file();
        let mut problems = Vec::new();
        let node = parse(&bytes, Path::new("node.samples"), None, &mut problems);
        assert_eq!(
            node.of("gpu_power_mw", "GPU-1").map(|s| s.points.len()),
            Some(30)
        );
        assert_eq!(node.gpus().collect::<Vec<_>>(), [("GPU-1", "H200")]);
        assert_eq!(node.span(), Some((0, 2_900_000_000)));
        let cut = parse(
            &bytes[..bytes.len() - 5],
            Path::new("node.samples"),
            None,
            &mut problems,
        );
        assert_eq!(
            cut.of("gpu_power_mw", "GPU-1").map(|s| s.points.len()),
            Some(20)
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_file_that_is_cut_or_gone_after_the_end_of_the_run_is_named() {
        let root = tempfile::tempdir().expect("a folder");
        let name = "node/node-p1-00000000.samples";
        let job = serde_json::json!({ "samples": { name: 4, "node/other.samples": "x" } });
        let found = || {
            let mut problems = Vec::new();
            let written = written(&job, root.path(), &mut problems);
            read(root.path(), &[], written, &mut problems);
            let text = |p: Problem| format!("{}: {}", p.place, p.found);
            problems.into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(found(), ["the file: no such file"]);
        std::fs::create_dir(root.path().join("node")).expect("made");
        let bytes = file();
        let all = blocks_of(&bytes);
        // What a run that joined wrote counts as much, and one that has not ended wrote nothing.
        let members = root.path().join(MEMBERS);
        std::fs::create_dir(&members).expect("made");
        std::fs::write(members.join("2"), "").expect("written");
        let text = format!("{:#}", serde_json::json!({ "samples": { name: all } }));
        let member = capture::mark::sealed(&text);
        std::fs::write(members.join("1"), &member).expect("written");
        let found = |cut: usize| {
            std::fs::write(root.path().join(name), &bytes[..cut]).expect("written");
            let mut problems = Vec::new();
            let written = written(&serde_json::Value::Null, root.path(), &mut problems);
            read(root.path(), &[], written, &mut problems);
            problems.len()
        };
        assert_eq!(found(bytes.len()), 0);
        // The last bytes may fill up a block.
        for cut in (0..bytes.len() - 8).step_by(7) {
            assert!(found(cut) > 0, "{cut}");
        }
        std::fs::write(members.join("1"), member.replace("samples", "sample!")).expect("written");
        assert_eq!(found(bytes.len()), 1);
    }

    fn blocks_of(bytes: &[u8]) -> u64 {
        let mut blocks = 0;
        block::read(bytes, |_| blocks += 1, |damage| panic!("{damage:?}"));
        blocks
    }

    #[test]
    fn a_damaged_block_is_left_out_and_named() {
        let mut bytes = file();
        let at = bytes.len() - 60;
        bytes[at] ^= 1;
        let mut problems = Vec::new();
        let node = parse(&bytes, Path::new("node.samples"), None, &mut problems);
        assert_eq!(
            node.of("gpu_power_mw", "GPU-1").map(|s| s.points.len()),
            Some(20)
        );
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn stretches_of_a_thread_are_put_together() {
        let mut switches = Switches {
            of: "7/9/a/b".to_owned(),
            ..Switches::default()
        };
        let off = |from, to, preempted| Off {
            from,
            to,
            preempted,
        };
        switches.add((0, 100), &[off(20, 30, false), off(90, 100, true)]);
        switches.add((100, 200), &[off(100, 140, true)]);
        // Records were lost in between.
        switches.add((300, 400), &[]);
        assert_eq!(switches.thread(), Some((7, 9)));
        assert_eq!(switches.spans, [(0, 200), (300, 400)]);
        assert_eq!(switches.off.len(), 2);
        assert_eq!(switches.off_between(25, 100), [10, 5]);
        assert!(switches.covers(50, 200) && switches.covers(300, 301));
        assert!(!switches.covers(150, 350) && !switches.covers(250, 260));
    }

    #[test]
    fn samplers_that_took_over_are_one_node() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(root.path().join("node")).expect("made");
        for name in ["node-p1-00000000.samples", "node-p2-00000000.samples"] {
            std::fs::write(root.path().join("node").join(name), file()).expect("written");
        }
        let mut problems = Vec::new();
        let nodes = read(root.path(), &[], Written::new(), &mut problems);
        assert_eq!(nodes.len(), 1);
        assert_eq!(nodes[0].series.len(), 2);
        assert_eq!(
            nodes[0].of("node_cpu_us", "").map(|s| s.points.len()),
            Some(6)
        );
    }
}
