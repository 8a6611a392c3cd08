//! `ncclscope export --anonymous`: a capture that can be shown to others, written as a capture.
//!
//! Files are gone over one by one. Blocks of trace files keep their numbers, so that what is lost there is
//! lost here. What the live part of a killed process had staged goes into its trace file. At the end each
//! file that was written is searched for names that must not be there; if there is one, nothing is left.
//!
//! Rule: a file that this version does not know is left out, and said to be.

use super::target;
use crate::collect::is_compressible;
use crate::progress;
use crate::report::{open_attempt, unwritable};
use anyhow::{bail, Context};
use capture::block::{self, Block};
use capture::live::Image;
use capture::snapshot;
use cut::Cut;
use names::{Kind, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use tables::communication::{self, Pattern};
use tables::part;
use tables::sightings::Witness;
use tables::whole::{self, WholeFile};
use tables::{Problem, Which};

mod anonymous;
mod cut;
mod names;

/// Writes `capture`, or a part of it, without names into the folder `to`.
pub fn main(
    capture: &Path,
    part: &crate::part::Part,
    to: Option<&Path>,
    force: bool,
) -> anyhow::Result<ExitCode> {
    let Some(to) = to else {
        bail!("a capture can't go to standard output\n  hint: name a folder with `-o FOLDER`");
    };
    if !capture.is_dir() {
        bail!(
            "`{}`: expected the folder of a capture, found a file\
             \n  hint: `ncclscope collect` puts the files of a job into one",
            capture.display()
        );
    }
    check(to, capture, force)?;
    // Whole files are written, so names of all attempts are known.
    let read = open_attempt(capture, Which::All)?;
    let asked = part.asked()?;
    let attempts = read.attempts.len();
    if read
        .processes
        .iter()
        .any(|process| process.other_tool().is_some())
    {
        bail!(
            "`{}`: expected a capture, found files of another tool\
             \n  hint: `--to csv` writes their calls as a table",
            capture.display()
        );
    }
    let mut problems = Vec::new();
    let files = whole::files(capture, &mut problems);
    let mut names = Names::new()?;
    anonymous::know(&mut names, &read)?;
    let cut = match &asked {
        // A part is one of the last attempt.
        Some(asked) => Some(Cut::new(open_attempt(capture, Which::Last)?, asked)?),
        None => None,
    };
    if let Some(cut) = &cut {
        tell!("ncclscope: note: this is {} alone", cut.said);
    }
    let phase = match &asked {
        Some(analyze::spans::Part::Phase(name)) => Some(name.clone()),
        _ => None,
    };
    let mut writer = Writer {
        to: to.to_owned(),
        cut,
        phase,
        patterns: read.communication.clone(),
        names,
        written: Vec::new(),
        left_out: Vec::new(),
        problems,
    };
    drop(read);
    let written = progress::show("writing", |_| writer.all(&files));
    if let Err(error) = written.and_then(|()| writer.verify()) {
        writer.remove();
        return Err(error);
    }
    for problem in &writer.problems {
        tell!("warning: {problem}");
    }
    for (name, why) in &writer.left_out {
        tell!("warning: `{}` is left out: {why}", name.display());
    }
    if attempts > 1 && asked.is_none() {
        tell!(
            "ncclscope: note: this job was started {attempts} times, and all attempts are written"
        );
    }
    tell!(
        "{} files written to {}, with stand-ins for names",
        writer.written.len(),
        to.display()
    );
    tell!("Next: ncclscope report {}", to.display());
    Ok(ExitCode::SUCCESS)
}

/// Fails if the folder is there and has something that must stay. With `force`, removes an earlier capture
/// that was written by this.
fn check(to: &Path, capture: &Path, force: bool) -> anyhow::Result<()> {
    let marker = to.join(MARKER);
    if marker.is_file() && force {
        for line in std::fs::read_to_string(&marker)?.lines() {
            let path = to.join(line);
            let is_inside = Path::new(line)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_)));
            if is_inside && path.is_file() {
                std::fs::remove_file(&path)
                    .with_context(|| format!("removing `{}`", path.display()))?;
                let _ = path.parent().map(std::fs::remove_dir);
            }
        }
        std::fs::remove_file(&marker)?;
    }
    target::check(to, capture, false)
}

/// The list of the files that were written, so that `--force` can remove them and nothing else.
const MARKER: &str = "anonymous.txt";

struct Writer {
    to: PathBuf,
    /// The part of the run that is written; `None` if all is.
    cut: Option<Cut>,
    /// The name of the phase that it is of.
    phase: Option<String>,
    patterns: Vec<Pattern>,
    names: Names,
    /// Relative to the folder.
    written: Vec<PathBuf>,
    left_out: Vec<(PathBuf, String)>,
    problems: Vec<Problem>,
}

/// Blocks that a live part had staged as they were, and the number of the trace file that they belong to.
type Staged = BTreeMap<PathBuf, (u32, u64, Vec<u8>)>;

impl Writer {
    fn all(&mut self, files: &[WholeFile]) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.to)
            .with_context(|| format!("`{}` can't be made", self.to.display()))?;
        let is_live = |file: &&WholeFile| file.name.extension().is_some_and(|end| end == "live");
        let mut staged = Staged::new();
        for file in files.iter().filter(is_live) {
            self.live(file, &mut staged)?;
        }
        for file in files.iter().filter(|file| !is_live(file)) {
            self.file(file, &mut staged)?;
        }
        // Their trace files are not there.
        for (stem, (number, id, blocks)) in staged {
            let mut bytes = block::file_header(id).to_vec();
            block::read(
                &blocks,
                |found| self.put_block(&stem, &mut bytes, &found),
                |_| (),
            );
            let ending = if number == 0 {
                ".trace".into()
            } else {
                format!(".{number}.trace")
            };
            self.write(&with_ending(&stem, &ending), &bytes)?;
        }
        if !self.patterns.is_empty() {
            let text = anonymous::patterns(&mut self.names, &self.patterns);
            self.write(Path::new(communication::FILE), text.as_bytes())?;
        }
        self.part()?;
        let mut list: Vec<String> = self
            .written
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        list.push(String::new());
        self.put(Path::new(MARKER), list.join("\n").as_bytes())
    }

    fn file(&mut self, file: &WholeFile, staged: &mut Staged) -> anyhow::Result<()> {
        let name = file
            .name
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_of_other = |cut: &Cut| {
            let stem = stem(&file.name).0;
            ["trace", "snap", "live", "marks"]
                .iter()
                .any(|of| name.ends_with(of))
                && !cut.has(&stem)
        };
        // Another attempt of the job.
        if self.cut.as_ref().is_some_and(is_of_other) {
            return Ok(());
        }
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let (begins, ends) = tables::TOPOLOGY_FILE;
        let is_topology = [begins, "graphs-"]
            .iter()
            .any(|begin| name.starts_with(begin))
            && name.ends_with(ends);
        match ending {
            "trace" | "samples" => self.trace(file, staged),
            "snap" => {
                let bytes = file.load(&mut self.problems);
                let image = snapshot::read(&bytes).map(Image::upgraded);
                self.image(file, image)
            }
            "marks" => {
                let text = self.text(file);
                let text = anonymous::marks(&mut self.names, &text);
                self.write(&file.name, text.as_bytes())
            }
            "json" if name == "capture.json" => {
                let job = serde_json::from_str(&self.text(file)).unwrap_or_default();
                let text = anonymous::job(&mut self.names, &job);
                self.put(&file.name.clone(), text.as_bytes())
            }
            // That of a smaller part is written at the end.
            "json" if name == part::FILE && self.cut.is_some() => Ok(()),
            "json" if name == part::FILE => {
                let Some(mut part) = part::Part::of_json(&self.text(file)) else {
                    return self.skip(file, "it is no part of a run");
                };
                part.said = self.names.text(&part.said);
                let processes = std::mem::take(&mut part.processes).into_iter();
                part.processes = processes.map(|(of, at)| (self.place(&of), at)).collect();
                self.put(&file.name, part.to_json().as_bytes())
            }
            "json" if Witness::of_file(name).is_some() => {
                let verb = Witness::of_file(name).map_or("", Witness::verb);
                let text = self.text(file);
                let Some(text) = anonymous::sighting(&mut self.names, &text) else {
                    return self.skip(file, "it is no JSON");
                };
                let boot = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
                let digits: String = boot["boot_id"]
                    .as_str()
                    .unwrap_or_default()
                    .chars()
                    .take(8)
                    .collect();
                self.write(
                    &file.name.with_file_name(format!("{verb}-{digits}.json")),
                    text.as_bytes(),
                )
            }
            "xml" if is_topology => {
                let text = self.text(file);
                let text = anonymous::topology(&mut self.names, &text);
                let (begin, host) = name.split_once('-').unwrap_or((name, ""));
                let host = self
                    .names
                    .of(Kind::Host, host.strip_suffix(ends).unwrap_or(host));
                self.write(
                    &file.name.with_file_name(format!("{begin}-{host}{ends}")),
                    text.as_bytes(),
                )
            }
            // It was read, and is written anew.
            "txt" if name == communication::FILE => Ok(()),
            _ => self.skip(file, "it may have names, and no verb needs it"),
        }
    }

    fn text(&mut self, file: &WholeFile) -> String {
        String::from_utf8_lossy(&file.load(&mut self.problems)).into_owned()
    }

    fn skip(&mut self, file: &WholeFile, why: &str) -> anyhow::Result<()> {
        self.left_out.push((file.name.clone(), why.to_owned()));
        Ok(())
    }

    /// An adopted live part, and what it had staged.
    fn live(&mut self, file: &WholeFile, staged: &mut Staged) -> anyhow::Result<()> {
        let bytes = file.load(&mut self.problems);
        let image = if snapshot::is_whole(&bytes) {
            snapshot::read_whole(&bytes).map(|(image, _)| image)
        } else {
            Some(Image::copy(&bytes))
        };
        let image = image.map(Image::upgraded);
        if let Some(view) = image.as_ref().and_then(Image::view) {
            let header = view.header();
            let mut blocks = Vec::new();
            let each = |found: Block<'_>| block::put_like(&mut blocks, &found, found.payload);
            // Staged blocks have no header of a file before them.
            block::read(&view.staged(), each, |_| ());
            header.staged_len.store(0, Relaxed);
            if !blocks.is_empty() {
                let (number, id) = (
                    header.trace_number.load(Relaxed),
                    header.trace_id.load(Relaxed),
                );
                staged.insert(stem(&file.name).0, (number, id, blocks));
            }
        }
        self.image(file, image)
    }

    fn image(&mut self, file: &WholeFile, image: Option<Image>) -> anyhow::Result<()> {
        let replaced = image.and_then(|image| {
            anonymous::live_part(&mut self.names, &image)?;
            let size = image.view()?.header().size.load(Relaxed) as usize;
            Some(snapshot::whole(&image, size.min(8 * image.words().len())))
        });
        match replaced {
            Some(bytes) => self.write(&file.name, &bytes),
            None => self.skip(file, "nothing in it is sound"),
        }
    }

    fn trace(&mut self, file: &WholeFile, staged: &mut Staged) -> anyhow::Result<()> {
        let bytes = file.load(&mut self.problems);
        let Ok(header) = block::read_header(&bytes) else {
            return self.skip(file, "nothing in it is sound");
        };
        let mut out = bytes[..header.bytes].to_vec();
        let mut numbers = BTreeSet::new();
        let (stem, number) = stem(&file.name);
        let each = |found: Block<'_>| {
            numbers.insert(found.number);
            self.put_block(&stem, &mut out, &found);
        };
        block::read_on(&bytes, &mut 0, each, |_| ());
        if staged.get(&stem).is_some_and(|(of, ..)| *of == number) {
            if let Some((_, _, blocks)) = staged.remove(&stem) {
                let each = |found: Block<'_>| {
                    if !numbers.contains(&found.number) {
                        self.put_block(&stem, &mut out, &found);
                    }
                };
                block::read(&blocks, each, |_| ());
            }
        }
        self.write(&file.name, &out)
    }

    /// Puts a block without names behind `out`, and without what is outside of the part.
    fn put_block(&mut self, stem: &Path, out: &mut Vec<u8>, found: &Block<'_>) {
        let cut = match &mut self.cut {
            Some(cut) => cut.payload(stem, found),
            None => Some((found.major, found.payload.to_vec())),
        };
        let Some((major, payload)) = cut else { return };
        let found = Block {
            major,
            payload: &payload,
            ..*found
        };
        if let Some(payload) = anonymous::payload(&mut self.names, &self.patterns, &found) {
            block::put_like(out, &found, &payload);
        }
    }

    /// Writes which part of the run this is, if it is one.
    fn part(&mut self) -> anyhow::Result<()> {
        let Some(cut) = self.cut.take() else {
            return Ok(());
        };
        let said = match &self.phase {
            Some(name) => {
                let stands = self
                    .names
                    .unless_public(Kind::Phase, name, anonymous::PHASES);
                cut.said
                    .replace(&format!("`{name}`"), &format!("`{stands}`"))
            }
            None => cut.said.clone(),
        };
        let said = self.names.text(&said);
        let part = cut.part(said, |stem| self.place(stem));
        self.put(Path::new(part::FILE), part.to_json().as_bytes())
    }

    /// Writes a file of a host, whose folder is named after it.
    fn write(&mut self, name: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let to = self.place(name);
        self.put(&to, bytes)
    }

    /// What a file of a host is called without its name.
    fn place(&mut self, name: &Path) -> PathBuf {
        let mut to = PathBuf::new();
        let folders = name.parent().into_iter().flat_map(Path::iter);
        for folder in folders.filter_map(|folder| folder.to_str()) {
            let number = folder.strip_prefix("restart-").unwrap_or("x");
            if number.bytes().all(|b| b.is_ascii_digit()) {
                to.push(folder)
            } else {
                to.push(self.names.of(Kind::Host, folder))
            }
        }
        to.push(name.file_name().unwrap_or_default());
        to
    }

    fn put(&mut self, name: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let is_packed = is_compressible(name);
        let name = if is_packed {
            with_ending(name, ".zst")
        } else {
            name.to_owned()
        };
        let path = self.to.join(&name);
        let write = || -> std::io::Result<()> {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            if is_packed {
                std::fs::write(
                    &path,
                    zstd::encode_all(bytes, zstd::DEFAULT_COMPRESSION_LEVEL)?,
                )
            } else {
                std::fs::write(&path, bytes)
            }
        };
        write().map_err(|error| unwritable(&path, &error))?;
        self.written.push(name);
        Ok(())
    }

    /// Searches what was written for names.
    fn verify(&mut self) -> anyhow::Result<()> {
        let left = self.names.left()?;
        let mut problems = Vec::new();
        for file in whole::files(&self.to, &mut problems) {
            let bytes = file.load(&mut problems);
            let in_path = left(file.name.as_os_str().as_encoded_bytes());
            if let Some(name) = in_path.or_else(|| left(&bytes)) {
                bail!(
                    "`{}` would still have the name `{name}`, so nothing was written\
                     \n  hint: please report this, without the capture",
                    file.name.display()
                );
            }
        }
        Ok(())
    }

    fn remove(&self) {
        for name in self.written.iter().map(|name| self.to.join(name)) {
            let _ = std::fs::remove_file(&name);
            let _ = name.parent().map(std::fs::remove_dir);
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The stem of a process's file, and the number of a trace file.
fn stem(name: &Path) -> (PathBuf, u32) {
    let bare = name
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let (bare, number) = if name.extension().is_some_and(|end| end == "trace") {
        capture::rotated::split_number(bare)
    } else {
        (bare, 0)
    };
    (name.with_file_name(bare), number)
}
