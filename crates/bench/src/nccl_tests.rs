//! Reads what nccl-tests (or `ncclscope bench`) printed, text or JSON, into a [`Table`].
//!
//! How many ranks communicated comes from the numbers of ranks and groups above the figures, not from the
//! number of lines: a program that was built without MPI runs as often as it is started, each time alone.
//!
//! Columns of the text are found by the names above them, so versions with other columns are read too:
//! per-iteration times, timestamps, no `root`, or ours.
//!
//! Rule: a line of figures that can't be read is an error with its number, not a row less. Only a last line
//! that was cut off is left out, and that is said.

use crate::function::Function;
use crate::table::{together, Device, Figures, Spread, Table, TableRow};
use analyze::spelling::size;
use anyhow::{anyhow, bail, Context, Result};
use serde_json::Value;

/// Columns where no line of names is above the figures.
const NAMES: &str = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";

/// Reads text or JSON.
///
/// # Errors
/// What was expected, and in which line.
pub fn read(text: &str) -> Result<Table> {
    if text.trim_start().starts_with('{') {
        from_json(text)
    } else {
        from_text(text)
    }
}

/// The name of a function by nccl-tests' program: `build/all_reduce_perf`.
fn function(program: &str) -> Option<Function> {
    let name = program.trim().rsplit('/').next()?;
    let name = name.strip_suffix("_perf").unwrap_or(name);
    // Its parts are unequal, and its figures are by the same convention.
    let name = if name == "alltoallv" {
        "alltoall"
    } else {
        name
    };
    Function::named(name)
}

fn from_text(text: &str) -> Result<Table> {
    let mut table = Table::default();
    let mut names: Vec<&str> = NAMES.split(' ').collect();
    let mut program = None;
    let last = text.lines().count();
    let mut averages = Vec::new();
    // The process that failed.
    let mut failed_pid = None;
    // Runs of which the beginning is here.
    let mut heads = 0;
    // Devices of the run whose figures come next, and whether some came since.
    let (mut run, mut is_begun): (Vec<Device>, bool) = (Vec::new(), false);
    for (number, whole) in (1..).zip(text.lines()) {
        let line = untagged(whole.trim());
        if table.failed.is_none() && is_failure(line) {
            table.failed = Some(line.trim_start_matches(['.', ' ']).to_owned());
        } else if let (Some(failed), None) = (&table.failed, &failed_pid) {
            failed_pid = pid_of(line, failed);
        }
        if let Some(said) = comment(line) {
            let words: Vec<&str> = said.split_whitespace().collect();
            if words.first() == Some(&"size") {
                names = words;
            } else if words.first() == Some(&"bytes") && words.contains(&"res") {
                bail!(
                    "line {number}: expected the columns of nccl-tests of 2019 or later, found those of \
                     2018, which are not read"
                );
            } else if let Some(name) = said.trim().strip_prefix("Collective test starting:") {
                program = function(name);
                if name.contains("alltoallv") {
                    let said = "alltoallv stands here as AlltoAll: its ranks exchange unequal parts, so do \
                                not compare it with alltoall";
                    table.about.push(said.to_owned());
                }
                if program.is_none() {
                    let name = name.trim();
                    table
                        .about
                        .push(format!("`{name}` is no function that ncclscope knows"));
                }
            } else if words.first() == Some(&"nThread") {
                heads += 1;
            } else if words.first() == Some(&"Rank") {
                if is_begun {
                    (run, is_begun) = (Vec::new(), false);
                }
                let device = device(&words);
                run.extend(device.clone());
                table.devices.extend(device);
            } else if let Some(average) = said.trim().strip_prefix("Avg bus bandwidth") {
                let average = average.trim_start().strip_prefix(':');
                averages.push(average.and_then(|average| average.trim().parse().ok()));
            } else if let Some((_, version)) = said.split_once("nccl-library=") {
                table.nccl_version = version
                    .split_whitespace()
                    .next()
                    .and_then(|v| v.parse().ok());
            }
        } else if line
            .split_whitespace()
            .next()
            .is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()))
        {
            match row(line, &names, program) {
                Ok(mut row) => {
                    if !is_begun {
                        about_ranks(&mut table, &run);
                    }
                    is_begun = true;
                    row.nranks = together(&run).map(|together| together.nranks);
                    row.devices = (table.devices.len() - run.len(), table.devices.len());
                    table.rows.push(row);
                    let mut values = line.split_whitespace();
                    if let Some(value) = values.find(|value| is_no_figure(value)) {
                        let said = format!(
                            "line {number} has `{value}`, which is no figure and is left out"
                        );
                        table.about.push(said);
                    }
                }
                // Its columns are printed one after the other.
                Err(_) if number == last && !text.ends_with('\n') => {
                    let said = format!("line {number} was cut off and is left out");
                    table.about.push(said);
                }
                Err(error) => return Err(error.context(format!("line {number}"))),
            }
        }
    }
    if table.rows.is_empty() {
        bail!("expected nccl-tests' output, found no line of figures in it");
    }
    name_by_factor(&mut table.rows);
    if let (Some(failed), Some(last)) = (&mut table.failed, table.rows.last()) {
        let by = failed_pid.map_or(String::new(), |pid| format!(", pid {pid}"));
        *failed = format!("{failed}{by}, after the figures of {}", size(last.size));
        table.about.insert(0, format!("the run failed: {failed}"));
    }
    if table.failed.is_none() && averages.len() < heads.min(1) {
        table.is_cut = true;
        let said =
            "the text ends before the average of the run, so the run died, or lines are missing";
        table.about.insert(0, said.to_owned());
    }
    // Of the output of several programs there is no common one.
    if let [average] = averages[..] {
        table.read_average = average;
    }
    compare_averages(&mut table);
    Ok(table)
}

/// Says which function a run without a name made, if its figures leave one only. Older versions do
/// not print which program ran. The bus bandwidth is the other one times a factor, by function and ranks.
fn name_by_factor(rows: &mut [TableRow]) {
    let is_same = |a: &TableRow, b: &TableRow| {
        (a.devices, &a.redop, a.root) == (b.devices, &b.redop, b.root) && b.function.is_none()
    };
    let mut from = 0;
    while from < rows.len() {
        let length = rows[from..]
            .iter()
            .take_while(|row| is_same(&rows[from], row));
        let to = from + length.count().max(1);
        let run = &mut rows[from..to];
        if run[0].function.is_none() {
            let mut functions: Vec<Option<Function>> = run
                .iter()
                .filter(|row| busbw(row) >= 1.0)
                .map(by_factor)
                .collect();
            functions.dedup();
            if let [function] = functions[..] {
                run.iter_mut().for_each(|row| row.function = function);
            }
        }
        from = to;
    }
}

fn busbw(row: &TableRow) -> f64 {
    let side = row.out_of_place.as_ref().or(row.in_place.as_ref());
    side.and_then(|side| side.busbw).unwrap_or(0.0)
}

/// The function of a row by the factor between its bandwidths. AllGather and AlltoAll have the same factor.
/// So have an AllReduce of two ranks and sends and receives. Of these it is not known.
fn by_factor(row: &TableRow) -> Option<Function> {
    let n = row.nranks.filter(|n| *n > 1)?;
    let side = row.out_of_place.as_ref().or(row.in_place.as_ref())?;
    let factor = side.busbw? / side.algbw?;
    let others = f64::from(n - 1) / f64::from(n);
    // Bandwidths have two digits behind the point.
    let is = |of: f64| (factor - of).abs() < 0.02 * of;
    let (reduces, has_root) = (row.redop != "none", row.root >= 0);
    match () {
        () if reduces && !has_root && n > 2 && is(2.0 * others) => Some(Function::AllReduce),
        () if reduces && !has_root && is(others) && !is(1.0) => Some(Function::ReduceScatter),
        () if reduces && has_root && is(1.0) => Some(Function::Reduce),
        () if !reduces && has_root && is(1.0) => Some(Function::Broadcast),
        () => None,
    }
}

/// A line of the header or the end, without its `#`, which is lost when text is pasted elsewhere.
fn comment(line: &str) -> Option<&str> {
    const BEGINNINGS: [&str; 9] = [
        "Rank ",
        "size ",
        "bytes ",
        "Collective test starting:",
        "Avg bus bandwidth",
        "Out of bounds values",
        "nccl-tests version",
        "Using devices",
        "nThread ",
    ];
    let is_comment = BEGINNINGS
        .iter()
        .any(|beginning| line.starts_with(beginning));
    line.strip_prefix('#').or(is_comment.then_some(line))
}

/// The process of a failure, which the lines below it name: ` .. node-2 pid 25146: Test failure`.
fn pid_of(line: &str, failed: &str) -> Option<u32> {
    let (host, _) = failed.split_once(':')?;
    let said = line.trim_start_matches(['.', ' ']);
    let (pid, _) = said
        .strip_prefix(host)?
        .strip_prefix(" pid ")?
        .split_once(':')?;
    pid.parse().ok()
}

/// Whether the program says here that it failed.
fn is_failure(line: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "Test NCCL failure",
        "Test CUDA failure",
        "Test failure",
        "NCCL failure",
        "Test timeout",
        // Of a shell, mpirun and srun.
        "Segmentation fault",
        "exited on signal",
        "oom-kill",
    ];
    SIGNS.iter().any(|sign| line.contains(sign))
}

/// Says how the ranks of a run communicated, if not all with each other.
fn about_ranks(table: &mut Table, devices: &[Device]) {
    let Some(found) = together(devices) else {
        if !devices.is_empty() {
            let said = "groups of unequal size ran, so it is not known how many ranks communicated";
            table.about.push(said.to_owned());
        }
        return;
    };
    let ranks = match found.nranks {
        1 => "one rank".to_owned(),
        n => format!("{n} ranks"),
    };
    if found.runs > 1 {
        table.about.push(format!(
            "{} runs of {ranks} each, which did not know of each other: build nccl-tests with MPI=1 to \
             measure all {} ranks together",
            found.runs,
            devices.len()
        ));
    }
    if found.groups > 1 {
        let groups = found.groups;
        table.about.push(format!(
            "{groups} groups of {ranks} each ran at the same time"
        ));
    }
}

/// Says where the average that was read is not that of the lines.
fn compare_averages(table: &mut Table) {
    let Some((read, mean)) = table.read_average.zip(table.mean_busbw()) else {
        return;
    };
    // Lines have four digits or more, and small ones two behind the point.
    if (read - mean).abs() > 0.01 * read.abs().max(1.0) {
        table.about.push(format!(
            "the average bus bandwidth that was read is {read:.4}; of the lines here it is {mean:.4}"
        ));
    }
}

/// Without what launchers and collectors of logs put in front of a line, one after the other: a time and a
/// tag may both be there (`kubectl logs --prefix --timestamps`).
fn untagged(line: &str) -> &str {
    const MOST_TAGS: usize = 4;
    let mut line = line;
    for _ in 0..MOST_TAGS {
        let rest = without_tag(line);
        if rest.len() == line.len() {
            break;
        }
        line = rest;
    }
    line
}

/// Without a tag in front: `[1,0]<stdout>:` (mpirun --tag-output), `0: ` (srun --label), a time
/// (`kubectl logs --timestamps`), `name  | ` (docker compose), or `(Worker pid=7) ` (Ray).
fn without_tag(line: &str) -> &str {
    let mpirun = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("<stdout>:"))
        .filter(|(tag, _)| tag.ends_with(']'));
    let srun = line
        .split_once(": ")
        .filter(|(tag, _)| !tag.is_empty() && tag.bytes().all(|b| b.is_ascii_digit()));
    if let Some((_, rest)) = mpirun.or(srun) {
        return rest.trim();
    }
    if let Some(rest) = after_time(line) {
        return rest.trim();
    }
    // `[0] `, `[rank0]:`, `[pod/name] `: no line of nccl-tests begins so. `node-1: ` may stand before others.
    let bracket = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let word = line.split_once(": ").filter(|(tag, rest)| {
        let is_line = |c: char| c == '#' || c.is_ascii_digit();
        !tag.contains(char::is_whitespace)
            && !tag.starts_with('#')
            && rest.trim_start().starts_with(is_line)
    });
    // Also `| INFO | ` behind the time of a logger.
    let compose = line.trim_start_matches(['|', ' ']).split_once('|');
    let compose = compose.filter(|(tag, _)| {
        let tag = tag.trim_end();
        !tag.is_empty() && !tag.starts_with('#') && !tag.contains(char::is_whitespace)
    });
    // `(RayWorker pid=7, ip=10.0.0.1) `
    let ray = line.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let ray = ray.filter(|(tag, _)| tag.contains("pid="));
    let rest = bracket.or(ray).or(compose).or(word).map(|(_, rest)| rest);
    rest.map_or(line, |rest| rest.trim_start_matches(':').trim())
}

/// What follows a time: `2026-08-21T10:00:00.123Z `, or with a space between date and time.
fn after_time(line: &str) -> Option<&str> {
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        let digits = |part: &&str| part.bytes().all(|b| b.is_ascii_digit());
        parts.iter().map(|part| part.len()).eq([4, 2, 2]) && parts.iter().all(digits)
    };
    let is_clock =
        |text: &str| text.contains(':') && text.starts_with(|c: char| c.is_ascii_digit());
    let (first, rest) = line.split_once(' ')?;
    match first.split_once('T') {
        Some((date, clock)) => (is_date(date) && is_clock(clock)).then_some(rest),
        None => {
            let (clock, rest) = rest.split_once(' ').filter(|_| is_date(first))?;
            is_clock(clock).then_some(rest)
        }
    }
}

/// `Rank 0 Group 0 Pid 6899 on host device 0 [0000:04:00] NVIDIA H100`; without `Group` in older versions.
fn device(words: &[&str]) -> Option<Device> {
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let bus = words.iter().position(|word| word.starts_with('['))?;
    Some(Device {
        rank: after("Rank")?.parse().ok()?,
        group: after("Group")
            .and_then(|group| group.parse().ok())
            .unwrap_or(0),
        pid: after("Pid")?.parse().ok()?,
        hostname: after("on")?.to_owned(),
        device: after("device")?.parse().ok()?,
        device_hex: words[bus].trim_matches(['[', ']']).to_owned(),
        device_info: words[bus + 1..].join(" "),
    })
}

fn row(line: &str, names: &[&str], function: Option<Function>) -> Result<TableRow> {
    let values: Vec<&str> = line.split_whitespace().collect();
    // A timestamp, the last column, has a space in it.
    let timed = names.contains(&"timestamp");
    let expected = names.len() + usize::from(timed);
    if values.len() != expected {
        bail!(
            "expected {expected} columns ({}), found {}",
            names.join(" "),
            values.len()
        );
    }
    let mut row = TableRow {
        function,
        redop: "none".to_owned(),
        root: -1,
        ..TableRow::default()
    };
    let (mut out, mut within) = (Figures::default(), Figures::default());
    let (mut times, mut medians) = (0, 0);
    for (name, value) in names.iter().zip(&values) {
        times += usize::from(matches!(*name, "time" | "cputime"));
        medians += usize::from(*name == "p50");
        let second = if medians > 0 { medians > 1 } else { times > 1 };
        let side = if second { &mut within } else { &mut out };
        let whole = || {
            value
                .parse::<u64>()
                .map_err(|_| anyhow!("expected a number under {name}, found `{value}`"))
        };
        match *name {
            "size" => row.size = whole()?,
            "count" => row.count = whole()?,
            "type" => row.datatype = (*value).to_owned(),
            "redop" => row.redop = (*value).to_owned(),
            "root" => {
                row.root = value
                    .parse()
                    .map_err(|_| anyhow!("expected a rank under root, found `{value}`"))?
            }
            "time" | "cputime" => side.time_us = figure(name, value)?,
            "algbw" => side.algbw = figure(name, value)?,
            "busbw" => side.busbw = figure(name, value)?,
            // Large counts are in scientific notation.
            "#wrong" | "error" => side.wrong = figure(name, value)?.map(|wrong| wrong as u64),
            "p50" | "p95" | "p99" | "max" | "host" | "skew" | "skewed" => {
                ours(side, name, figure(name, value)?)
            }
            _ => {}
        }
    }
    row.out_of_place = Some(out).filter(|figures| figures.time_us.is_some());
    row.in_place = Some(within).filter(|figures| figures.time_us.is_some());
    Ok(row)
}

/// What our own text has after nccl-tests' columns.
fn ours(side: &mut Figures, name: &str, value: Option<f64>) {
    let Some(value) = value else {
        return;
    };
    let spread = side.spread.get_or_insert_with(Spread::default);
    let at = ["p50", "p95", "p99", "max"].iter().position(|n| *n == name);
    match (at, name) {
        (Some(at), _) => spread.percentiles.get_or_insert([0.0; 4])[at] = value,
        (None, "host") => spread.host_us = value,
        (None, "skew") => spread.skew_us = Some(value),
        (None, _) => spread.skewed = value as u64,
    }
}

/// What C prints of a division by zero: a call of 0 µs has an infinite bandwidth.
fn is_no_figure(value: &str) -> bool {
    let value = value.trim_start_matches('-').to_ascii_lowercase();
    value == "inf" || value == "nan"
}

/// A figure; `N/A` is none, nor is what divides by zero.
fn figure(name: &str, value: &str) -> Result<Option<f64>> {
    if value == "N/A" || is_no_figure(value) {
        return Ok(None);
    }
    let number: Option<f64> = value
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number
        .map(Some)
        .with_context(|| format!("expected a number under {name}, found `{value}`"))
}

fn from_json(text: &str) -> Result<Table> {
    let whole: Value = serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&without_infinities(text)))
        .context("this JSON is not whole")?;
    let results = whole["results"].as_array();
    let results = results.context("expected nccl-tests' JSON, found no `results` in it")?;
    let program = whole["args"][0].as_str().and_then(function);
    let rows = results.iter().enumerate().map(|(index, result)| {
        let field = |name: &str| &result[name];
        let named = |name: &str| field(name).as_str().and_then(function);
        let whole = |name: &str| {
            let value = field(name).as_u64();
            value.with_context(|| {
                format!(
                    "result {index}: expected a number as `{name}`, found {}",
                    field(name)
                )
            })
        };
        let text = |name: &str, missing: &str| field(name).as_str().unwrap_or(missing).to_owned();
        // nccl-tests writes the root as text.
        let root = field("root")
            .as_i64()
            .or_else(|| field("root").as_str()?.trim().parse().ok());
        Ok(TableRow {
            function: named("experiment_name").or(named("function")).or(program),
            nranks: None,
            devices: (0, 0),
            size: whole("size")?,
            count: whole("count")?,
            datatype: text("type", ""),
            redop: text("redop", "none"),
            root: root.unwrap_or(-1),
            out_of_place: side(field("out_of_place")),
            in_place: side(field("in_place")),
        })
    });
    let devices = whole["devices"]
        .as_array()
        .or_else(|| whole["config"]["devices"].as_array());
    let devices = devices.into_iter().flatten().map(|device| {
        let number = |name: &str| {
            device[name]
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or_default()
        };
        let text = |name: &str| device[name].as_str().unwrap_or_default().to_owned();
        Device {
            rank: number("rank"),
            group: number("group"),
            pid: number("pid"),
            hostname: text("hostname"),
            device: number("device"),
            device_hex: text("device_hex"),
            device_info: text("device_info"),
        }
    });
    let rows = rows.collect::<Result<Vec<TableRow>>>()?;
    if rows.is_empty() {
        bail!("expected nccl-tests' JSON, found no row in its `results`");
    }
    let error = whole["error"].as_str();
    let devices: Vec<Device> = devices.collect();
    let nranks = together(&devices).map(|together| together.nranks);
    let mut table = Table {
        about: error
            .map(|why| format!("ended early: {why}"))
            .into_iter()
            .collect(),
        nccl_version: whole["nccl_version"]
            .as_u64()
            .and_then(|v| u32::try_from(v).ok()),
        rows: rows
            .into_iter()
            .map(|row| TableRow {
                nranks,
                devices: (0, devices.len()),
                ..row
            })
            .collect(),
        failed: error.map(str::to_owned),
        read_average: whole["average_bus_bandwidth"]["bandwidth"].as_f64(),
        ..Table::default()
    };
    about_ranks(&mut table, &devices);
    table.devices = devices;
    compare_averages(&mut table);
    Ok(table)
}

/// C prints `inf` and `nan`, which JSON does not have: they become `null`.
fn without_infinities(text: &str) -> String {
    let (mut out, mut is_text) = (String::with_capacity(text.len()), false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["-inf", "inf", "-nan", "nan"];
        let found = word
            .iter()
            .find(|word| !is_text && rest.starts_with(**word));
        if let Some(word) = found {
            out += "null";
            rest = &rest[word.len()..];
            continue;
        }
        if c == '\\' && is_text {
            let length = rest.chars().take(2).map(char::len_utf8).sum::<usize>();
            out += &rest[..length];
            rest = &rest[length..];
            continue;
        }
        is_text ^= c == '"';
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn side(value: &Value) -> Option<Figures> {
    let figure = |name: &str| value[name].as_f64();
    value.as_object()?;
    let percentiles = ["p50_us", "p95_us", "p99_us", "max_us"].map(figure);
    Some(Figures {
        time_us: figure("time").or_else(|| figure("cpu_time")),
        algbw: figure("alg_bw"),
        busbw: figure("bus_bw"),
        wrong: figure("nwrong").map(|wrong| wrong as u64),
        spread: figure("host_us").map(|host_us| Spread {
            calls: value["calls"].as_u64(),
            skew_us: figure("skew_us"),
            skewed: value["skewed"].as_u64().unwrap_or_default(),
            percentiles: match percentiles {
                [Some(a), Some(b), Some(c), Some(d)] => Some([a, b, c, d]),
                _ => None,
            },
            deviation_us: figure("stdev_us"),
            gpu_us: figure("gpu_us"),
            host_us,
        }),
    })
}
