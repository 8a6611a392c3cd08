//! The capture folder of a run: made or accepted, marked with `capture.json`, and shared by the ranks of one
//! job.
//!
//! Rule: whoever creates `capture.json` owns the folder (O_EXCL decides between many). Others join only with
//! the same job key and a rank that is not taken, so no two captures ever mix.

use super::adopt;
use super::job::{batch_id, Job};
use super::launcher::Launcher;
use anyhow::{anyhow, bail};
use capture::left::path_part;
use capture::mark::MEMBERS;
use serde_json::{json, Value};
use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tables::printable;

const MARK: &str = "capture.json";
/// Bound on the folders of one name that are tried, from the second on with a number.
const MOST_TURNS: u32 = 1000;
/// How long the creator may take to fill in `capture.json`.
const PATIENCE: Duration = Duration::from_secs(10);

/// A capture folder that this run may write into.
pub struct Folder {
    /// Absolute.
    pub path: PathBuf,
    /// As the user would name it.
    pub shown: PathBuf,
    /// `NCCLSCOPE_OUT` for the recorder, with the patterns that only it can fill in.
    pub out: String,
    /// Whether other ranks' runs write into it too.
    pub shared: bool,
    /// What `capture.json` says, for the one that made it.
    record: Option<Value>,
    /// The file of this instance in [`MEMBERS`], if it joined; see [`Job::member`].
    member: Option<PathBuf>,
    /// Whether the folder was not there before.
    made: bool,
    /// Why this is not the folder that the user named.
    pub note: Option<String>,
}

/// What the user calls a folder.
pub struct Name {
    root: PathBuf,
    /// The patterns that only the recorder can fill in, and what follows them.
    rest: String,
}

impl Name {
    /// Of `output`, with the patterns that are known by now.
    ///
    /// # Errors
    /// When this can't be the name of a capture folder, whatever is on the disk.
    pub fn of(output: &Path, job: Option<&Job>, launcher: Launcher) -> anyhow::Result<Name> {
        let Some(output) = output.to_str() else {
            bail!(
                "`{}` is not UTF-8, which the recorder needs\n  hint: name another folder with -o",
                output.display()
            );
        };
        if output.contains(char::is_control) {
            bail!(
                "`{}` has control characters\n  hint: name another folder with -o",
                printable(output)
            );
        }
        let (root, rest) = split(&expand(output, job, launcher));
        if !rest.is_empty() && (root.as_os_str().is_empty() || root == Path::new("/")) {
            bail!(
                "`{output}` begins with a pattern that is not known before the program starts\n  hint: put \
                 it into a folder of its own, like `-o captures/{}`",
                output.trim_start_matches('/')
            );
        }
        Ok(Name { root, rest })
    }
}

/// How an attempt to have a folder ended.
enum Claim {
    /// It is new to us and ours.
    Created(Value),
    /// It is our job's.
    Joined,
    /// It is our job's, and this rank's place in it is taken.
    Taken,
    /// It holds something of another capture, named here.
    Other(PathBuf),
    /// Something else stands in its place, or it can't be written: why. Another name may do.
    Unusable(String),
}

impl Folder {
    /// Makes or accepts the folder for `command`: the one that the user named, else a new one in the current
    /// folder.
    ///
    /// If the user's folder holds another capture, or is no folder that can be written, it is a new one
    /// beside it, in the current folder, or among the temporary files. [`Folder::note`] says so.
    ///
    /// # Errors
    /// When none of these can be made.
    pub fn prepare(
        name: Option<Name>,
        job: Option<&Job>,
        command: &[OsString],
    ) -> anyhow::Result<Folder> {
        let Some(Name { root, rest }) = name else {
            return Folder::unnamed(job, command);
        };
        // A job that is queued again comes with the same name. It must not end for that.
        let mut why: Option<String> = None;
        for turn in 1..=MOST_TURNS {
            let Some(own) = numbered(&root, turn) else {
                break;
            };
            let found = match claim(&own, job, command) {
                Ok((Claim::Other(what), _)) => {
                    format!("holds another capture (`{}`)", what.display())
                }
                Ok((Claim::Taken, _)) => "holds an earlier capture of this job and rank".to_owned(),
                Ok((Claim::Unusable(why), _)) => why,
                Ok((claim, made)) => {
                    let mut folder = Folder::of(own, &rest, claim, made, job)?;
                    folder.note(&root, why);
                    return Ok(folder);
                }
                // No other name in this place will do.
                Err(error) => {
                    why.get_or_insert(format!("can't be made ({error:#})"));
                    break;
                }
            };
            why.get_or_insert(found);
        }
        let mut folder = Folder::unnamed(job, command)?;
        if why.is_some() {
            folder.note(&root, why);
        }
        Ok(folder)
    }

    /// Notes that this folder is not `root`, the one that the user named, because of this.
    fn note(&mut self, root: &Path, why: Option<String>) {
        self.note = why.filter(|_| self.is_creator()).map(|why| {
            let (root, own) = (root.display(), self.shown.display());
            format!("`{root}` {why}, so this capture is in `{own}`")
        });
    }

    /// One in the current folder, or else among the temporary files of this host.
    fn unnamed(job: Option<&Job>, command: &[OsString]) -> anyhow::Result<Folder> {
        Folder::unnamed_in(Path::new(""), job, command).or_else(|error| {
            let place = std::env::temp_dir();
            let mut folder = Folder::unnamed_in(&place, job, command)?;
            folder.note(Path::new("."), Some(format!("can't take it ({error:#})")));
            Ok(folder)
        })
    }

    fn unnamed_in(place: &Path, job: Option<&Job>, command: &[OsString]) -> anyhow::Result<Folder> {
        let Some(job) = job else {
            let when = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
            loop {
                let root = place.join(format!("ncclscope-{when}-{:04x}", random()? as u16));
                if let (claim @ Claim::Created(_), true) = claim(&root, None, command)? {
                    return Folder::of(root, "", claim, true, None);
                }
            }
        };
        // All ranks must come to the same name by themselves; those that run several programs in turn take
        // the next.
        let key = path_part(&job.key);
        for turn in 1..MOST_TURNS {
            let root = place.join(format!("ncclscope-{key}"));
            let root = numbered(&root, turn).expect("it has a name");
            if let (claim @ (Claim::Created(_) | Claim::Joined), made) =
                claim(&root, Some(job), command)?
            {
                return Folder::of(root, "", claim, made, Some(job));
            }
        }
        bail!("a thousand captures of job {key} are in this folder\n  hint: name a new folder with -o");
    }

    fn of(
        root: PathBuf,
        rest: &str,
        claim: Claim,
        made: bool,
        job: Option<&Job>,
    ) -> anyhow::Result<Folder> {
        let has_parents = root
            .components()
            .any(|c| c == std::path::Component::ParentDir);
        let path = if has_parents {
            root.canonicalize()?
        } else {
            std::path::absolute(&root)?
        };
        let Some(text) = path.to_str() else {
            bail!(
                "`{}` is not UTF-8, which the recorder needs\n  hint: name another folder with -o",
                path.display()
            );
        };
        let mut out = text.replace('%', "%%");
        if !rest.is_empty() {
            out = format!("{out}/{rest}");
        }
        let record = if let Claim::Created(record) = claim {
            Some(record)
        } else {
            None
        };
        Ok(Folder {
            member: job.map(|job| path.join(MEMBERS).join(&job.member)),
            path,
            shown: root,
            out,
            shared: job.is_some(),
            record,
            made,
            note: None,
        })
    }

    /// Whether this run made the capture, and speaks for it.
    pub fn is_creator(&self) -> bool {
        self.record.is_some()
    }

    /// Notes the file of samples of this node, and how many blocks it has.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn sampled(&mut self, file: &Path, blocks: u32) -> io::Result<()> {
        let samples = json!({ file.to_string_lossy(): blocks });
        match (&mut self.record, &self.member) {
            (Some(record), _) => record["samples"] = samples,
            (None, Some(member)) => write_whole(member, &json!({ "samples": samples }))?,
            (None, None) => {}
        }
        Ok(())
    }

    /// Writes the end into `capture.json`, where that is ours to do. No status if the job goes on without us.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn end(&mut self, status: Option<u8>) -> io::Result<()> {
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        record["ended"] = json!(now().0);
        if let Some(status) = status {
            record["exit_status"] = json!(status);
        }
        write_whole(&self.path.join(MARK), record)
    }

    /// Whether nothing was recorded into a folder that is this run's alone. Ranks that share one may still
    /// come.
    pub fn is_empty(&self) -> bool {
        let is_mark =
            |entry: io::Result<std::fs::DirEntry>| entry.is_ok_and(|e| e.file_name() == MARK);
        let alone = if self.made {
            std::fs::read_dir(&self.path).is_ok_and(|mut entries| entries.all(is_mark))
        } else {
            adopt::traces(&self.path).is_empty()
        };
        self.record.is_some() && !self.shared && alone
    }

    /// Takes the folder away again when there is nothing in it: the program could not be started, or recorded
    /// nothing.
    pub fn abandon(self) {
        if self.record.is_some() && !self.shared {
            let _ = std::fs::remove_file(self.path.join(MARK));
            if self.made {
                let _ = std::fs::remove_dir(&self.path);
            }
        }
    }
}

/// The folder of that name for the given turn: `root`, `root-2`, `root-3`. `None` if `root` has no name of
/// its
/// own, as `.` and `..`.
fn numbered(root: &Path, turn: u32) -> Option<PathBuf> {
    if turn == 1 {
        return Some(root.to_owned());
    }
    let mut name = root.file_name()?.to_owned();
    name.push(format!("-{turn}"));
    Some(root.with_file_name(name))
}

/// This moment in the machine's time zone, by RFC 3339, and the name of the zone.
fn now() -> (String, Option<String>) {
    let now = jiff::Zoned::now();
    let zone = now.time_zone();
    let name = zone.iana_name().map(str::to_owned);
    // A zone that TZ describes has a name for its offset, such as CET.
    let name = name.or_else(|| {
        let info = zone.to_offset_info(now.timestamp());
        Some(info.abbreviation().to_owned())
    });
    let moment = now.timestamp().display_with_offset(now.offset());
    (moment.to_string(), name)
}

/// Tries to have `root`; also says whether it was made.
///
/// # Errors
/// When it can't be made or written, and no other name beside it could.
fn claim(root: &Path, job: Option<&Job>, command: &[OsString]) -> anyhow::Result<(Claim, bool)> {
    if let Some(parent) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    let made = match DirBuilder::new().mode(0o700).create(root) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match root.metadata() {
            Ok(found) if found.is_dir() => false,
            Ok(_) => return Ok((Claim::Unusable("is no folder".to_owned()), false)),
            Err(error) => {
                let why = format!("is a link that leads to no folder ({error})");
                return Ok((Claim::Unusable(why), false));
            }
        },
        Err(error) => return Err(error.into()),
    };
    // A folder that somebody else made may be of a kind that its neighbours are not.
    let unusable = |error: io::Error, what: &Path| {
        if made {
            return Err(anyhow!("`{}`: {error}", what.display()));
        }
        let why = format!("can't be written (`{}`: {error})", what.display());
        Ok((Claim::Unusable(why), false))
    };
    // Looked for before the mark is made: ranks that join write their files only after it.
    let strange = if made { None } else { strange(root) };
    let mark = root.join(MARK);
    if let Some(strange) = strange {
        if job.is_none() || !mark.exists() {
            return Ok((Claim::Other(strange), made));
        }
    }
    let (started, zone) = now();
    let mut record = json!({
        "schema": "ncclscope.capture/1",
        "id": format!("{:016x}", random()?),
        "command": command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
        "started": started,
        "zone": zone,
        "ncclscope": env!("CARGO_PKG_VERSION"),
    });
    if let Some(job) = job {
        record["job"] = json!(job.key);
    }
    let claim = match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&mark)
    {
        Ok(mut file) => {
            if let Err(error) = file.write_all(&text(&record)) {
                // Half a mark would make the next attempt take the folder for another capture's.
                let _ = std::fs::remove_file(&mark);
                if made {
                    let _ = std::fs::remove_dir(root);
                }
                return unusable(error, &mark);
            }
            Claim::Created(record)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match job {
            Some(job) if job_of(&mark).as_deref() == Some(&job.key) => Claim::Joined,
            _ => return Ok((Claim::Other(mark), made)),
        },
        Err(error) => {
            if made {
                let _ = std::fs::remove_dir(root);
            }
            return unusable(error, &mark);
        }
    };
    if let Some(job) = job {
        let members = root.join(MEMBERS);
        let done = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&members);
        if let Err(error) = done {
            return unusable(error, &members);
        }
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(members.join(&job.member))
        {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok((Claim::Taken, made))
            }
            Err(error) => return unusable(error, &members),
        }
    }
    Ok((claim, made))
}

/// The first thing in `root` that belongs to a capture.
fn strange(root: &Path) -> Option<PathBuf> {
    let mut found = None;
    adopt::walk(root, &mut |path| {
        if path.file_name().is_some_and(|name| name == MARK)
            || path.extension().is_some_and(|e| e == "trace")
        {
            found = Some(path.to_owned());
        }
        found.is_none()
    });
    found
}

/// The job key in a `capture.json` that may still be being written; `None` if it has none, or can't be read.
fn job_of(mark: &Path) -> Option<String> {
    let since = Instant::now();
    loop {
        let mut bytes = Vec::new();
        let read = adopt::open(mark).and_then(|mut file| file.read_to_end(&mut bytes));
        match read.map(|_| serde_json::from_slice::<Value>(&bytes)) {
            Ok(Ok(record)) => return record["job"].as_str().map(str::to_owned),
            Ok(Err(_)) if since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20))
            }
            _ => return None,
        }
    }
}

/// Puts a record in the place of a file, which has the old text or the new one at any moment.
fn write_whole(path: &Path, record: &Value) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&text(record))?;
    file.persist(path)?;
    Ok(())
}

fn text(record: &Value) -> Vec<u8> {
    let text = serde_json::to_string_pretty(record).expect("plain strings and numbers");
    capture::mark::sealed(&text).into_bytes()
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills in the patterns that hold for every process of the program. `%h` differs under a launcher that
/// leaves this host, `%r` under any, and `%p` is a process's own.
fn expand(pattern: &str, job: Option<&Job>, launcher: Launcher) -> String {
    let host = (!launcher.leaves_host()).then(|| adopt::Here::ask().host);
    let rank = job
        .filter(|_| launcher == Launcher::None)
        .map(|job| job.rank.clone());
    let batch = batch_id(|name| std::env::var(name).ok());
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        let known = match rest.as_bytes().get(at + 1) {
            Some(b'h') => host.as_deref(),
            Some(b'r') => rank.as_deref(),
            Some(b'j') => batch.as_deref(),
            _ => None,
        };
        out.push_str(&rest[..at]);
        let end = rest[at + 1..]
            .chars()
            .next()
            .map_or(rest.len(), |c| at + 1 + c.len_utf8());
        match known {
            Some(value) => out.extend(value.chars().map(|c| {
                if c.is_ascii_alphanumeric() || "._-".contains(c) {
                    c
                } else {
                    '_'
                }
            })),
            None => out.push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// The leading components without patterns as a path, and the rest as it is.
fn split(pattern: &str) -> (PathBuf, String) {
    let mut root = PathBuf::from(if pattern.starts_with('/') { "/" } else { "" });
    let mut components = pattern.split('/').filter(|c| !c.is_empty());
    let mut rest = Vec::new();
    for component in components.by_ref() {
        let plain = component.replace("%%", "");
        if ["%h", "%r", "%p", "%j"].iter().any(|p| plain.contains(p)) {
            rest.push(component);
            break;
        }
        root.push(component.replace("%%", "%"));
    }
    rest.extend(components);
    (root, rest.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(rank: &str) -> Job {
        Job {
            rank: rank.to_owned(),
            key: "slurm-1.0".to_owned(),
            member: rank.to_owned(),
        }
    }

    #[test]
    fn patterns_are_split_after_what_is_known() {
        assert_eq!(
            split("/a/50%%/x-%r/%p"),
            (PathBuf::from("/a/50%"), "x-%r/%p".to_owned())
        );
        assert_eq!(split("a/b"), (PathBuf::from("a/b"), String::new()));
        assert_eq!(
            expand("a/%r-%%r-%p%q", Some(&job("3")), Launcher::None),
            "a/3-%%r-%p%q"
        );
        assert_eq!(expand("%r%", Some(&job("3")), Launcher::Srun), "%r%");
    }

    #[test]
    fn ranks_of_one_job_share_a_folder_and_no_rank_twice() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path().join("c");
        let command = [OsString::from("train")];
        let claims: Vec<_> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..8)
                .map(|rank| {
                    let (root, command) = (&root, &command);
                    scope.spawn(move || {
                        claim(root, Some(&job(&rank.to_string())), command)
                            .expect("claimed")
                            .0
                    })
                })
                .collect();
            claims
                .into_iter()
                .map(|c| c.join().expect("no panic"))
                .collect()
        });
        assert_eq!(
            claims
                .iter()
                .filter(|c| matches!(c, Claim::Created(_)))
                .count(),
            1
        );
        assert_eq!(
            claims.iter().filter(|c| matches!(c, Claim::Joined)).count(),
            7
        );
        assert!(matches!(
            claim(&root, Some(&job("3")), &command).expect("tried").0,
            Claim::Taken
        ));
        let stranger = Job {
            key: "slurm-2.0".to_owned(),
            ..job("9")
        };
        assert!(matches!(
            claim(&root, Some(&stranger), &command).expect("tried").0,
            Claim::Other(_)
        ));
        assert!(matches!(
            claim(&root, None, &command).expect("tried").0,
            Claim::Other(_)
        ));
    }
}
