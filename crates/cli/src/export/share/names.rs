//! Stand-ins for the names in a capture: the same one for the same name, wherever it is.
//!
//! [`Names::of`] gives the stand-in of a name as a whole. [`Names::text`] is for sentences of others, such as
//! NCCL's log: it replaces the names of hosts, users and jobs that are known, addresses, and paths.
//!
//! Rule: numbers are given out in order of first use, so the same capture gives the same stand-ins.

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::Context;
use regex::{Captures, Regex};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Host,
    User,
    Job,
    Boot,
    Gpu,
    Command,
    Path,
    Address,
    Value,
    Communicator,
    Thread,
    Phase,
    Kernel,
    File,
    Library,
    Function,
    Hash,
}

impl Kind {
    /// What its stand-ins begin with, if they are not made to look like the names.
    fn word(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::User => "user",
            Kind::Job => "job",
            Kind::Boot => "boot",
            Kind::Gpu => "gpu",
            Kind::Command => "command",
            Kind::Path => "path",
            Kind::Address => "address",
            Kind::Value => "value",
            Kind::Communicator => "communicator",
            Kind::Thread => "thread",
            Kind::Phase => "phase",
            Kind::Kernel => "kernel",
            Kind::File => "file",
            Kind::Library => "library",
            Kind::Function => "function",
            Kind::Hash => "hash",
        }
    }

    /// Whether such a name is nowhere in the result, not even as a part of other words. Others may be words
    /// of everyday life, such as the function `step`.
    fn is_unmistakable(self) -> bool {
        matches!(
            self,
            Kind::Host | Kind::User | Kind::Boot | Kind::Gpu | Kind::Path | Kind::Address
        )
    }
}

/// Shorter names are in random bytes by chance: six letters are in a GiB with a chance of 1 : 260 000.
const UNMISTAKABLE: usize = 6;

/// See the module.
pub struct Names {
    /// What NCCL calls functions, datatypes, algorithms and protocols.
    pub words: BTreeSet<String>,
    /// Digits of the numbers of hosts.
    pub digits: usize,
    of: BTreeMap<(Kind, String), String>,
    counts: BTreeMap<Kind, usize>,
    known: Option<(AhoCorasick, Vec<String>)>,
    ip4: Regex,
    ip6: Regex,
    path: Regex,
    home: Regex,
    setting: Regex,
    file: Regex,
}

impl Names {
    pub fn new() -> anyhow::Result<Names> {
        let regex = |text: &str| Regex::new(text).context("a pattern of ours");
        Ok(Names {
            words: BTreeSet::new(),
            digits: 1,
            of: BTreeMap::new(),
            counts: BTreeMap::new(),
            known: None,
            ip4: regex(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")?,
            ip6: regex(r"(^|[^0-9A-Za-z])([0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]*:[0-9A-Fa-f.]*)")?,
            // Not the fractions and ways of NCCL's topology, such as GPU/0-60.
            path: regex(r#"(^|[\s='"(\[:,;])(/[^\s'"()\[\]<>,;:|]*\w[^\s'"()\[\]<>,;:|]*)"#)?,
            home: regex(r"/(?:home|Users|users|scratch|work)/([A-Za-z0-9_.-]+)")?,
            setting: regex(r"(set by environment to |set to )(.*)$")?,
            file: regex(r"[\w./+-]*[\w+-]\.(?:py|so|xml|json|conf|txt|log|cfg)(?:[.\d]*)\b")?,
        })
    }

    /// The stand-in of a name.
    pub fn of(&mut self, kind: Kind, name: &str) -> String {
        if let Some(known) = self.of.get(&(kind, name.to_owned())) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_insert(0);
        *count += 1;
        let n = *count;
        let stands = match kind {
            // Hosts keep their order by name.
            Kind::Host => format!("host-{n:0width$}", width = self.digits),
            Kind::Boot => format!("{n:08x}-0000-4000-8000-000000000000"),
            Kind::Gpu => format!("{n:032x}"),
            Kind::Path => format!("/path-{n}"),
            // Addresses for documentation, and behind them those for tests.
            Kind::Address if name.contains(':') => format!("2001:db8::{n:x}"),
            Kind::Address if n < 256 => format!("192.0.2.{n}"),
            Kind::Address => {
                let n = u32::try_from(n).unwrap_or(u32::MAX);
                Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)).saturating_add(n))
                    .to_string()
            }
            Kind::Hash => format!("{n:#x}"),
            kind => format!("{}-{n}", kind.word()),
        };
        self.of.insert((kind, name.to_owned()), stands.clone());
        stands
    }

    /// Notes who is at home in a path.
    pub fn note_users(&mut self, text: &str) {
        let users: Vec<String> = self
            .home
            .captures_iter(text)
            .map(|found| found[1].to_owned())
            .collect();
        users.iter().for_each(|user| {
            self.of(Kind::User, user);
        });
    }

    /// From here on, texts are searched for the names of hosts, users, jobs and boots that are known now.
    pub fn search(&mut self) -> anyhow::Result<()> {
        // A job's number may be any number in a text.
        let is_number = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
        let known = self.of.iter().filter(|((kind, name), _)| {
            matches!(kind, Kind::Host | Kind::User | Kind::Job | Kind::Boot) && !is_number(name)
        });
        let (names, stands): (Vec<String>, Vec<String>) = known
            .map(|((_, name), stands)| (name.clone(), stands.clone()))
            .unzip();
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&names)
            .context("too many names")?;
        self.known = Some((matcher, stands));
        Ok(())
    }

    /// A text of others without names.
    pub fn text(&mut self, text: &str) -> String {
        let text = self.without_known(text);
        let text = match self.setting.captures(&text) {
            Some(found) => {
                let (from, value) = (found.get(2).map_or(0, |of| of.start()), found[2].to_owned());
                let value = self.value(value.trim_end_matches('.'));
                format!("{}{value}", &text[..from])
            }
            None => text,
        };
        let text = self.replaced(
            &text,
            |names| &names.ip6,
            |names, found| {
                let address: Ipv6Addr = found[2].parse().ok()?;
                let is_general = address.is_loopback() || address.is_unspecified();
                (!is_general)
                    .then(|| format!("{}{}", &found[1], names.of(Kind::Address, &found[2])))
            },
        );
        let text = self.replaced(
            &text,
            |names| &names.ip4,
            |names, found| names.address4(&found[0]),
        );
        let text = self.replaced(
            &text,
            |names| &names.path,
            |names, found| {
                let path = &found[2];
                let system = [
                    "/sys/",
                    "/proc/",
                    "/dev/infiniband",
                    "/dev/nvidia",
                    "/path-",
                ];
                let is_own = !system.iter().any(|begin| path.starts_with(begin));
                is_own.then(|| format!("{}{}", &found[1], names.of(Kind::Path, path)))
            },
        );
        self.replaced(
            &text,
            |names| &names.file,
            |names, found| {
                let name = found[0].rsplit('/').next().unwrap_or_default();
                (!is_public_library(name)).then(|| names.of(Kind::File, &found[0]))
            },
        )
    }

    fn address4(&mut self, text: &str) -> Option<String> {
        let address: Ipv4Addr = text.parse().ok()?;
        let is_general = address.is_loopback() || address.is_unspecified();
        (!is_general).then(|| self.of(Kind::Address, text))
    }

    /// An address; one that says nothing of its host stays.
    pub fn address(&mut self, text: &str) -> String {
        match text.parse::<Ipv6Addr>() {
            Ok(of) if of.is_loopback() || of.is_unspecified() => text.to_owned(),
            Ok(_) => self.of(Kind::Address, text),
            Err(_) => self.address4(text).unwrap_or_else(|| text.to_owned()),
        }
    }

    /// The value of a setting. What has only numbers and words that NCCL or ncclscope gave a meaning stays.
    pub fn value(&mut self, value: &str) -> String {
        let words = value.split([',', ':', ';', '=', '^', ' ', '+', '|', '-', '_']);
        if words.filter(|word| !word.is_empty()).all(is_plain) {
            value.to_owned()
        } else {
            self.of(Kind::Value, value)
        }
    }

    /// A name that stays if all its words are those of everybody.
    pub fn unless_public(&mut self, kind: Kind, name: &str, public: &[&str]) -> String {
        let mut words = name.split(|c: char| !c.is_ascii_alphabetic());
        let is_public =
            |word: &str| word.is_empty() || public.contains(&word.to_ascii_lowercase().as_str());
        if name.is_ascii() && words.all(is_public) {
            name.to_owned()
        } else {
            self.of(kind, name)
        }
    }

    /// The first unmistakable name that `bytes` still have.
    pub fn left(&self) -> anyhow::Result<impl Fn(&[u8]) -> Option<String>> {
        // An address may be the stand-in of another one.
        let stands: BTreeSet<&String> = self.of.values().collect();
        let names = self.of.iter().filter(|((kind, name), _)| {
            kind.is_unmistakable() && name.len() >= UNMISTAKABLE && !stands.contains(name)
        });
        let names: Vec<String> = names.map(|((_, name), _)| name.clone()).collect();
        let matcher = AhoCorasick::new(&names).context("too many names")?;
        Ok(move |bytes: &[u8]| {
            let mut found = matcher.find_iter(bytes);
            let whole = found.find(|of| is_word(bytes, of.start(), of.end()))?;
            Some(names[whole.pattern().as_usize()].clone())
        })
    }

    fn without_known(&self, text: &str) -> String {
        let Some((matcher, stands)) = &self.known else {
            return text.to_owned();
        };
        let (mut out, mut end) = (String::new(), 0);
        for found in matcher.find_iter(text) {
            if is_word(text.as_bytes(), found.start(), found.end()) {
                out.push_str(&text[end..found.start()]);
                out.push_str(&stands[found.pattern().as_usize()]);
                end = found.end();
            }
        }
        out.push_str(&text[end..]);
        out
    }

    fn replaced(
        &mut self,
        text: &str,
        pattern: impl Fn(&Names) -> &Regex,
        mut with: impl FnMut(&mut Names, &Captures<'_>) -> Option<String>,
    ) -> String {
        let pattern = pattern(self).clone();
        let replaced = pattern.replace_all(text, |found: &Captures<'_>| {
            with(self, found).unwrap_or_else(|| found[0].to_owned())
        });
        replaced.into_owned()
    }
}

/// Whether these bytes are no part of a longer word.
fn is_word(bytes: &[u8], from: usize, to: usize) -> bool {
    let is_part = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
    let before = from.checked_sub(1).and_then(|at| bytes.get(at));
    !is_part(before) && !is_part(bytes.get(to))
}

/// Whether a word of a setting's value says nothing of a site: a number, perhaps with a unit, or a word of
/// NCCL's or ncclscope's documentation.
fn is_plain(word: &str) -> bool {
    const WORDS: &[&str] = &[
        "replayed",
        "count",
        "steps",
        "ops",
        "all",
        "allgather",
        "allreduce",
        "auto",
        "broadcast",
        "callbacks",
        "coll",
        "collnet",
        "collnetchain",
        "collnetdirect",
        "copy",
        "debug",
        "direct",
        "disable",
        "drop",
        "env",
        "events",
        "false",
        "full",
        "graph",
        "host",
        "ib",
        "info",
        "init",
        "kernel",
        "ll",
        "ll128",
        "lo",
        "loc",
        "mpi",
        "net",
        "nodes",
        "none",
        "nvl",
        "nvls",
        "nvlstree",
        "off",
        "on",
        "p2p",
        "pat",
        "phb",
        "pix",
        "profile",
        "pxb",
        "pxn",
        "reduce",
        "reducescatter",
        "replay",
        "ring",
        "roce",
        "sendrecv",
        "shm",
        "simple",
        "socket",
        "stamps",
        "sys",
        "system",
        "trace",
        "tree",
        "true",
        "tuning",
        "version",
        "warn",
        "wait",
        "no",
        "yes",
    ];
    let lower = word.to_ascii_lowercase();
    let number = lower.strip_prefix("0x").unwrap_or(&lower);
    let digits = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let units = [
        "", "k", "m", "g", "kib", "mib", "gib", "b", "s", "ms", "us", "%",
    ];
    let is_number = number.len() > digits.len() && units.contains(&digits);
    let is_hex = lower.starts_with("0x") && number.bytes().all(|b| b.is_ascii_hexdigit());
    is_number || is_hex || WORDS.contains(&lower.as_str())
}

/// Whether everybody has this library, by its file's name.
pub fn is_public_library(name: &str) -> bool {
    const BEGINS: [&str; 17] = [
        "libnccl",
        "libtorch",
        "libc10",
        "libcu",
        "libnv",
        "libc.",
        "libm.",
        "libpython",
        "libpthread",
        "libstdc++",
        "libgcc",
        "libmpi",
        "libibverbs",
        "libmlx5",
        "libdl.",
        "ld-",
        "librdmacm",
    ];
    BEGINS.iter().any(|begin| name.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::new().expect("patterns");
        names.of(Kind::Host, "vm");
        names.of(Kind::Host, "trinity-01");
        names.note_users("/home/mallory/train.py");
        names.search().expect("few names");
        names
    }

    #[test]
    fn a_line_of_nccl_loses_hosts_addresses_and_paths() {
        let mut names = names();
        for (line, expected) in [
            (
                "vm:604:604 [1] NCCL INFO NCCL version 2.28.9+cuda13.0",
                "host-1:604:604 [1] NCCL INFO NCCL version 2.28.9+cuda13.0",
            ),
            (
                "NET/Socket : Using [0]eth0:10.1.7.9<0>",
                "NET/Socket : Using [0]eth0:192.0.2.1<0>",
            ),
            ("peer trinity-01-ib0 and vms", "peer host-2-ib0 and vms"),
            (
                "RAS client listening socket at 127.0.0.1<28028>",
                "RAS client listening socket at 127.0.0.1<28028>",
            ),
            ("Using ib0:fe80::a1%ib0<0>", "Using ib0:2001:db8::2%ib0<0>"),
            ("read /home/mallory/topo.xml, ok", "read /path-1, ok"),
            ("no mallory here", "no user-1 here"),
            (
                "could not read /sys/devices/pci0000:00/0000:00:06.0/../speed",
                "could not read /sys/devices/pci0000:00/0000:00:06.0/../speed",
            ),
            (
                "GPU/0-60 (0/5000.0/LOC) init.cc:1994",
                "GPU/0-60 (0/5000.0/LOC) init.cc:1994",
            ),
            (
                "NCCL_IB_HCA set by environment to mlx5_secret.",
                "NCCL_IB_HCA set by environment to value-1",
            ),
            (
                "NCCL_ALGO set by environment to Ring",
                "NCCL_ALGO set by environment to Ring",
            ),
            (
                "Could not find: libnccl-env.so",
                "Could not find: libnccl-env.so",
            ),
            ("Could not find: libacme-net.so", "Could not find: file-1"),
        ] {
            assert_eq!(names.text(line), expected);
        }
    }

    #[test]
    fn a_name_has_one_stand_in_and_what_is_left_is_found() {
        let mut names = names();
        assert_eq!(names.of(Kind::Path, "/home/mallory/x"), "/path-1");
        assert_eq!(names.of(Kind::Path, "/home/mallory/x"), "/path-1");
        let left = names.left().expect("few names");
        assert_eq!(left(b"\0\0trinity-01\0").as_deref(), Some("trinity-01"));
        assert_eq!(left(b"trinity-012 host-2"), None);
    }

    #[test]
    fn settings_that_say_nothing_of_a_site_stay() {
        let mut names = names();
        for value in [
            "64MiB",
            "0",
            "Ring,Tree",
            "^NVLS",
            "auto",
            "0x1e5e",
            "lo",
            "4194304",
        ] {
            assert_eq!(names.value(value), value);
        }
        for value in ["/tmp/out", "bond0-secret", "gpu-cluster.example.com"] {
            assert!(names.value(value).starts_with("value-"), "{value}");
        }
    }
}
