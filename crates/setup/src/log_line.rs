//! A line of NCCL's debug output, as programs, launchers and people hand it on.
//!
//! NCCL writes `host:pid:tid [device] NCCL INFO text`, and for a warning `host:pid:tid [device] file.cc:12
//! NCCL WARN text`. Launchers put words, colours and times before it. XLA leaves the place out, people
//! blacken it, and Ray leaves out lines that are like others and says behind one of them how many there were.
//!
//! Rule: what a line does not have is empty or 0, and never taken from another line. If a text has two lines
//! of NCCL in it, two processes wrote into each other, and it is no line.

use std::borrow::Cow;

/// How grave NCCL says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What NCCL does.
    Info,
    /// An error, or something that NCCL does without.
    Warn,
}

/// A line of NCCL's debug output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogLine<'a> {
    /// Host name, as NCCL has it; empty if the line does not have it.
    pub host: &'a str,
    /// Process id; 0 if the line does not have it.
    pub pid: u32,
    /// The thread, by Linux's number; 0 if the line does not have it.
    pub tid: u32,
    /// CUDA device of the thread.
    pub device: Option<u32>,
    /// Seconds since 1970, if the line has a time. A date is taken as UTC, so only differences count.
    pub at_s: Option<f64>,
    /// How grave it is.
    pub level: Level,
    /// File and line of NCCL's source, which warnings have; empty otherwise.
    pub source: &'a str,
    /// How many lines like this one Ray left out.
    pub left_out: u32,
    /// What NCCL said.
    pub text: &'a str,
}

impl<'a> LogLine<'a> {
    /// Takes a line of level INFO or WARN apart; `None` for any other line.
    pub fn parse(line: &'a str) -> Option<LogLine<'a>> {
        let (before, level, text) = by_level(line.trim_end())?;
        let (text, left_out) = without_count(unquoted(before, text));
        let (before, source) = split_source(before.trim_end());
        let (before, device) = split_device(before.trim_end());
        // `cat -n` and log collectors put a tab there.
        let (words, place) = before.rsplit_once([' ', '\t']).unwrap_or(("", before));
        let (host, pid, tid) = match (Place::parse(place), thread_of_glog(before)) {
            (_, Some(tid)) => ("", 0, tid),
            (Some(place), None) => (place.host, place.pid, place.tid),
            // A line that has lost its place still has its device. Prose about NCCL has neither.
            (None, None) if device.is_some() || before.is_empty() => ("", 0, 0),
            (None, None) => return None,
        };
        Some(LogLine {
            host,
            pid,
            tid,
            device,
            at_s: moment(before).or_else(|| moment(words)),
            level,
            source,
            left_out,
            text,
        })
    }
}

/// The host and process of a line of NCCL that was cut, because others wrote where it goes on; `None` for a
/// whole line and for what is no line of NCCL. The cut may be within the words of its level, too.
pub fn cut(line: &str) -> Option<(&str, u32)> {
    let level = |from: usize| {
        let marks = ["NCCL INFO ", "NCCL WARN "].map(|mark| line[from..].find(mark));
        marks.into_iter().flatten().min().map(|at| from + at)
    };
    if let Some(first) = level(0) {
        let second = level(first + 1)?;
        return LogLine::parse(&line[..second]).map(|cut| (cut.host, cut.pid));
    }
    let is_other = ["NCCL TRACE", "NCCL CALL", "NCCL VERSION"];
    if is_other.iter().any(|mark| line.contains(mark)) {
        return None;
    }
    let (before, behind) = line.split_once(" [")?;
    let (device, _) = behind.split_once(']')?;
    let is_device = !device.is_empty() && device.bytes().all(|b| b.is_ascii_digit());
    let place = Place::parse(before.rsplit([' ', '\t']).next()?)?;
    (is_device && place.pid != 0 && place.tid != 0).then_some((place.host, place.pid))
}

/// What stands before the level, the level, and what stands behind it.
fn by_level(line: &str) -> Option<(&str, Level, &str)> {
    let split = |mark: &str, level| {
        let at = line.find(mark)?;
        let is_word = at == 0 || line[..at].ends_with([' ', '\t']);
        is_word.then(|| (&line[..at], level, &line[at + mark.len()..]))
    };
    let info = split("NCCL INFO ", Level::Info);
    let warn = split("NCCL WARN ", Level::Warn);
    let (before, level, text) = match (info, warn) {
        (Some(info), Some(warn)) if warn.0.len() < info.0.len() => warn,
        (Some(info), _) => info,
        (None, warn) => warn?,
    };
    let is_mixed = text.contains("] NCCL INFO ") || text.contains(" NCCL WARN ");
    (!is_mixed).then_some((before, level, text))
}

/// A line in a field of JSON, as container runtimes and log collectors keep it, ends with its quotation mark,
/// and may have `\n` before that. Other fields follow.
fn unquoted<'a>(before: &str, text: &'a str) -> &'a str {
    let is_mark = |text: &str, at: usize| {
        text[..at].bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 0
    };
    let marks = |text: &str| -> Vec<usize> {
        let all = text.match_indices('"').map(|(at, _)| at);
        all.filter(|at| is_mark(text, *at)).collect()
    };
    let is_open = marks(before).len() % 2 == 1;
    let end = marks(text).first().copied().filter(|_| is_open);
    let text = &text[..end.unwrap_or(text.len())];
    let text = if is_open {
        text.strip_suffix("\\n").unwrap_or(text)
    } else {
        text
    };
    text.trim_end()
}

/// The thread in glog's `I0504 19:55:00.123456  907 nccl_api.cc:100]` at the end, which XLA puts in place of
/// NCCL's host, process and thread.
fn thread_of_glog(before: &str) -> Option<u32> {
    let mut words = before.strip_suffix(']')?.split_whitespace().rev();
    let source = words.next()?;
    let thread = words.next()?.parse().ok()?;
    let (time, day) = (words.next()?, words.next()?);
    let is_time = time.len() > 8 && time.as_bytes()[2] == b':' && time.as_bytes()[5] == b':';
    let level = day.rsplit([':', '>', ']']).next()?;
    let is_day = level.len() == 5
        && level.starts_with(['I', 'W', 'E', 'F'])
        && level[1..].bytes().all(|b| b.is_ascii_digit());
    (is_source(source) && is_time && is_day).then_some(thread)
}

/// The text without what Ray puts behind it, and how many lines Ray left out: `[repeated 7x across cluster]`.
fn without_count(text: &str) -> (&str, u32) {
    let counted = text.rsplit_once(" [repeated ").and_then(|(rest, count)| {
        let count: u32 = count.split_once("x ")?.0.parse().ok()?;
        Some((rest.trim_end(), count))
    });
    counted.unwrap_or((text, 0))
}

/// Whether a word is a place in NCCL's source, such as `misc/ibvwrap.cc:63`.
fn is_source(word: &str) -> bool {
    let Some((file, line)) = word.rsplit_once(':') else {
        return false;
    };
    let is_file = [".cc", ".h", ".cu", ".cpp", ".c", ".hpp"]
        .iter()
        .any(|end| file.ends_with(end));
    is_file && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
}

/// Where in the source a line is from, which stands between device and level: `misc/ibvwrap.cc:63`, from 2.30
/// on `include/alloc.h:320 (ncclCuMemAlloc)`. Plugins write `nccl_net_ofi_init:1444`, and builds of others
/// have such words before INFO, too: `showVersion, 544`.
fn split_source(before: &str) -> (&str, &str) {
    let named = before.strip_suffix(')').and_then(|named| {
        let (rest, function) = named.rsplit_once(" (")?;
        (!function.contains([' ', '\t'])).then(|| rest.trim_end())
    });
    if let Some((rest, source)) = named.unwrap_or(before).rsplit_once(' ') {
        if is_source(source) {
            return (rest, source);
        }
    }
    // Behind a whole place, no other words can stand there.
    let placed = before.rsplit_once("] ").filter(|(rest, words)| {
        let (place, device) = split_device(&before[..rest.len() + 1]);
        let place = place.rsplit([' ', '\t']).next().and_then(Place::parse);
        let is_numbered = words.bytes().any(|b| b.is_ascii_digit());
        device.is_some() && place.is_some() && is_numbered && words.split(' ').count() <= 2
    });
    match placed {
        Some((rest, source)) => (&before[..rest.len() + 1], source),
        None => (before, ""),
    }
}

/// The device, `[3]` at the end.
fn split_device(before: &str) -> (&str, Option<u32>) {
    let device = before.rfind('[').and_then(|at| {
        let is_word = at == 0 || before[..at].ends_with([' ', '\t', ':', '>']);
        let number = before[at + 1..].strip_suffix(']')?.parse().ok()?;
        is_word.then(|| (before[..at].trim_end(), Some(number)))
    });
    device.unwrap_or((before, None))
}

/// `host:pid:tid`.
struct Place<'a> {
    host: &'a str,
    pid: u32,
    tid: u32,
}

impl<'a> Place<'a> {
    /// `None` if there are no three parts, or if numbers are only a time of day. What people have blackened
    /// is 0.
    fn parse(place: &'a str) -> Option<Place<'a>> {
        // Other fields of JSON may stand before it.
        let place = place.rsplit('"').next().unwrap_or(place);
        let mut parts = place.rsplitn(3, ':');
        let (tid, pid) = (parts.next()?, parts.next()?);
        // mpirun's tag ends with `>:`.
        let host = parts.next()?.rsplit([':', '>']).next()?;
        // What people put in place of a name (`<host>`) is no name.
        let is_left_out = place.starts_with('<') && host.is_empty();
        let host = host.trim_matches(['"', '\'', '`']);
        // Numbers of processes have more digits than hours and minutes, or the host has a name.
        let is_clock = host.len() <= 2 && pid.len() == 2 && tid.len() >= 2;
        let is_time = date(place).is_some()
            || is_clock
                && [host, pid]
                    .iter()
                    .all(|n| n.bytes().all(|b| b.is_ascii_digit()));
        (is_left_out || !host.is_empty() && !is_time).then(|| Place {
            host,
            pid: pid.parse().unwrap_or(0),
            tid: tid.parse().unwrap_or(0),
        })
    }
}

/// The last time in a text, seconds since 1970: NCCL's own stands nearest to the place.
fn moment(text: &str) -> Option<f64> {
    let epoch = text.rfind('[').and_then(|at| {
        let stamp = text[at + 1..].split(']').next()?.trim();
        stamp.contains('.').then(|| stamp.parse::<f64>().ok())?
    });
    epoch.filter(|at| at.is_finite()).or_else(|| date(text))
}

/// A date with a time of day: `2026-05-04 19:55:00`, `2026-05-04T19:55:00.25Z`, `Mon May  4 19:55:00 2026`.
fn date(text: &str) -> Option<f64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let bytes = text.as_bytes();
    let digits = |at: usize, n: usize| -> Option<i64> {
        let digits = bytes.get(at..at.checked_add(n)?)?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| {
            digits
                .iter()
                .fold(0, |sum, b| sum * 10 + i64::from(b - b'0'))
        })
    };
    let is = |at: usize, byte: u8| bytes.get(at) == Some(&byte);
    let time = |at: usize| -> Option<f64> {
        let (hour, minute, second) = (digits(at, 2)?, digits(at + 3, 2)?, digits(at + 6, 2)?);
        (is(at + 2, b':') && is(at + 5, b':') && hour < 24 && minute < 60 && second < 61)
            .then(|| (hour * 3600 + minute * 60 + second) as f64)
    };
    let part = |at: usize| -> f64 {
        let is_point = is(at + 8, b'.') || is(at + 8, b',');
        let rest = bytes.get(at + 9..).filter(|_| is_point).unwrap_or(&[]);
        let digits = rest.iter().take(9).take_while(|b| b.is_ascii_digit());
        let scaled = digits.fold((0.0, 0.1), |(sum, unit), b| {
            (sum + f64::from(b - b'0') * unit, unit / 10.0)
        });
        scaled.0
    };
    let day_of = |at: usize| -> Option<i64> {
        let iso = || {
            let from = at.checked_sub(11)?;
            let is_date = is(from + 4, b'-') && is(from + 7, b'-');
            let (year, month, day) = (digits(from, 4)?, digits(from + 5, 2)?, digits(from + 8, 2)?);
            is_date.then(|| days(year, month, day))?
        };
        let named = || {
            let from = at.checked_sub(7)?;
            let name = text.get(from..from + 3)?;
            let month = MONTHS.find(name).filter(|at| at % 3 == 0)? / 3 + 1;
            let day = text.get(from + 4..from + 6)?.trim().parse().ok()?;
            days(digits(at + 9, 4)?, month as i64, day)
        };
        iso().or_else(named)
    };
    // From the end: a place is `host:pid:tid`, and may look like a time of day. It has no date before it.
    let places = (0..bytes.len().saturating_sub(7)).rev();
    places
        .filter(|at| is(at + 2, b':') && is(at + 5, b':'))
        .find_map(|at| Some(day_of(at)? as f64 * 86400.0 + time(at)? + part(at)))
}

/// Days since 1970 of a date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_date =
        (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| {
        // Years that begin in March, so that a leap day is the last one.
        let (year, month) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        let before = year * 365 + year / 4 - year / 100 + year / 400;
        before + (month * 153 + 2) / 5 + day - 1 - 719_468
    })
}

/// Launchers colour the lines of a rank, also in files: an escape character, `[`, numbers, a letter.
pub fn without_colours(line: &str) -> Cow<'_, str> {
    if !line.contains("\u{1b}[") {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_number = |c: char| c.is_ascii_digit() || c == ';';
        let mut rest = part.trim_start_matches(is_number).chars();
        rest.next();
        plain += rest.as_str();
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "n1:12:34 [3] NCCL INFO Trees [0] 1/-1/-1->0->-1";

    #[test]
    fn a_line_is_taken_apart_behind_what_launchers_put_before_it() {
        let parsed = LogLine::parse(PLAIN).expect("a line of NCCL");
        assert_eq!((parsed.host, parsed.pid, parsed.tid), ("n1", 12, 34));
        assert_eq!((parsed.device, parsed.at_s), (Some(3), None));
        assert_eq!(parsed.text, "Trees [0] 1/-1/-1->0->-1");
        for before in [
            "0: ",
            "[1,0]<stdout>:",
            "[1,0]<stderr>: ",
            "(Worker pid=7) ",
            "[rank0]:",
            "[default0]:",
            "[pod/worker-0/main] ",
            "worker-1  | ",
            "     7\t",
            "worker-0.log:7:",
        ] {
            let line = format!("{before}{PLAIN}");
            assert_eq!(LogLine::parse(&line), Some(parsed), "{before}");
        }
        for behind in ["\r", "    "] {
            let line = format!("{PLAIN}{behind}");
            assert_eq!(LogLine::parse(&line), Some(parsed), "{behind}");
        }
        for (before, behind) in [
            ("{\"log\":\"", "\\n\",\"stream\":\"stdout\"}"),
            ("{\"pod\":\"a\\\"b\",\"log\":\"", "\"}"),
            ("{\"ts\":\"2026\",\"log\":\"", "\"}"),
            ("\"", "\","),
        ] {
            let line = format!("{before}{PLAIN}{behind}");
            assert_eq!(LogLine::parse(&line), Some(parsed), "{line}");
        }
    }

    #[test]
    fn times_are_read_in_the_forms_of_nccl_and_of_launchers() {
        // 2026-05-04 19:55:00 as UTC.
        let at = 1_777_924_500.0;
        for (stamp, expected) in [
            ("[1763852882.250000] ", 1_763_852_882.25),
            ("[2026-05-04 19:55:00] ", at),
            ("[default0]:[2026-05-04 19:55:00] ", at),
            ("{\"ts\":\"2026-05-04T19:55:00Z\",\"log\":\"", at),
            ("2026-05-04T19:55:00.250000000Z ", at + 0.25),
            ("Mon May  4 19:55:00 2026[1,0]<stdout>:", at),
            ("Mon May  4 19:55:00 2026<stdout>:", at),
            ("2026-05-04T19:54:59Z [2026-05-04 19:55:00] ", at),
        ] {
            let line = format!("{stamp}{PLAIN}");
            let parsed = LogLine::parse(&line).expect("a line of NCCL");
            let time = parsed.at_s.unwrap_or_default();
            assert!((time - expected).abs() < 1e-6, "{stamp}: {time}");
            assert_eq!((parsed.host, parsed.pid), ("n1", 12), "{stamp}");
        }
        for stamp in [
            "[2026-13-04 19:55:00] ",
            "19:55:00 ",
            "[1e999.0] ",
            "[x.y] ",
        ] {
            let line = format!("{stamp}{PLAIN}");
            assert_eq!(LogLine::parse(&line).and_then(|l| l.at_s), None, "{stamp}");
        }
        assert_eq!(
            (days(1970, 1, 1), days(2000, 3, 1)),
            (Some(0), Some(11_017))
        );
    }

    #[test]
    fn a_line_without_its_place_still_has_its_device() {
        for line in [
            "[3] NCCL INFO hello",
            "2026-05-04 19:55:00 [3] NCCL INFO hello",
            "[2026-05-04 19:55:00] [3] NCCL INFO hello",
            "2026-05-04T19:55:00.5Z [3] NCCL INFO hello",
            "I0504 19:55:00.1 7 log.cc:1] [3] NCCL INFO hello",
        ] {
            let parsed = LogLine::parse(line).expect("a line of NCCL");
            assert_eq!((parsed.host, parsed.pid), ("", 0), "{line}");
            assert_eq!((parsed.device, parsed.text), (Some(3), "hello"), "{line}");
        }
        for before in ["", "0: ", "[1,0]<stdout>:"] {
            let line =
                format!("{before}I0821 10:00:00.123456  900 nccl_api.cc:100] NCCL INFO Trees");
            let parsed = LogLine::parse(&line).expect("a line of NCCL");
            assert_eq!(
                (parsed.host, parsed.pid, parsed.tid),
                ("", 0, 900),
                "{line}"
            );
            assert_eq!((parsed.device, parsed.text), (None, "Trees"), "{line}");
        }
        let left_out = LogLine::parse("<host>:920:1145 [1] NCCL INFO hello").expect("a line");
        assert_eq!((left_out.host, left_out.pid, left_out.tid), ("", 920, 1145));
        let black = LogLine::parse("xxx:yyy:zzz [2] NCCL INFO hello").expect("a line");
        assert_eq!((black.host, black.pid, black.device), ("xxx", 0, Some(2)));
    }

    #[test]
    fn warnings_have_a_place_in_the_source() {
        let line =
            "[2026-08-21 10:00:00] b:905:985 [5] include/alloc.h:327 NCCL WARN Cuda failure 2";
        let parsed = LogLine::parse(line).expect("a line of NCCL");
        assert_eq!(
            (parsed.level, parsed.source),
            (Level::Warn, "include/alloc.h:327")
        );
        assert_eq!(
            (parsed.host, parsed.pid, parsed.device),
            ("b", 905, Some(5))
        );
        assert_eq!(parsed.text, "Cuda failure 2");
        let plugin = "b:9:9 [5] nccl_net_ofi_init:1444 NCCL WARN NET/OFI No eligible providers";
        let parsed = LogLine::parse(plugin).expect("a line of NCCL");
        assert_eq!(
            (parsed.host, parsed.source),
            ("b", "nccl_net_ofi_init:1444")
        );
    }

    #[test]
    fn a_function_may_stand_beside_the_place_in_the_source() {
        for (words, source) in [
            (
                "include/alloc.h:320 (ncclCuMemAlloc)",
                "include/alloc.h:320",
            ),
            ("misc/socket.cc:50 (<unknown>)", "misc/socket.cc:50"),
            ("showVersion, 544", "showVersion, 544"),
            ("ncclIbInit:717", "ncclIbInit:717"),
        ] {
            for (level, is) in [("INFO", Level::Info), ("WARN", Level::Warn)] {
                let line = format!("0: b:905:985 [5] {words} NCCL {level} hello");
                let parsed = LogLine::parse(&line).expect("a line of NCCL");
                assert_eq!((parsed.level, parsed.source), (is, source), "{line}");
                assert_eq!((parsed.host, parsed.device), ("b", Some(5)), "{line}");
            }
        }
        let bare = LogLine::parse("[5] include/alloc.h:320 (f) NCCL WARN hello").expect("a line");
        assert_eq!((bare.device, bare.source), (Some(5), "include/alloc.h:320"));
    }

    #[test]
    fn ray_says_how_many_lines_it_left_out() {
        for behind in [
            " [repeated 7x across cluster]",
            " [repeated 7x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0)",
        ] {
            let line = format!("{PLAIN}{behind}");
            let parsed = LogLine::parse(&line).expect("a line of NCCL");
            assert_eq!((parsed.left_out, parsed.text), (7, "Trees [0] 1/-1/-1->0->-1"));
        }
    }

    #[test]
    fn prose_and_mixed_lines_are_none() {
        for line in [
            "",
            "epoch 3 loss 0.1",
            "n1 NCCL INFO hello",
            "it says NCCL WARN something",
            "xNCCL INFO y",
            "n1:1:1 [0] NCCL INFO Conn1:2:2 [1] NCCL INFO nected",
        ] {
            assert_eq!(LogLine::parse(line), None, "{line}");
        }
        for mixed in [
            "n1:1:7 [0] NCCL INFO Conn1:2:2 [1] NCCL INFO nected",
            "n1:1:7 [0] NCL INFO Connected",
            "0: n1:1:7 [0][rank0]:[E ProcessGroupNCCL.cpp:563] timeout",
        ] {
            assert_eq!(cut(mixed), Some(("n1", 1)), "{mixed}");
        }
        for whole in [
            PLAIN,
            "n1:1:7 [0] 1.5 f:12 NCCL TRACE hello",
            "epoch 3 [1] x",
        ] {
            assert_eq!(cut(whole), None, "{whole}");
        }
        assert_eq!(without_colours("a\u{1b}["), "a");
    }
}
