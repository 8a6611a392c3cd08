//! Reading what nccl-tests printed.
//!
//! The fixtures were written by hand after the program's formats; their figures are invented, not measured.

use bench::function::Function;
use bench::nccl_tests::read;
use bench::{json, table::Table};

const TEXT: &str = include_str!("data/all_reduce.txt");

#[test]
fn text_of_today() {
    let table = read(TEXT).expect("sound");
    assert_eq!(table.nccl_version, Some(22809));
    assert_eq!(table.devices.len(), 2);
    assert_eq!(table.devices[1].pid, 4322);
    assert_eq!(table.devices[1].device_hex, "0000:2a:00");
    assert_eq!(table.devices[1].device_info, "NVIDIA H200");
    let row = &table.rows[1];
    assert_eq!(row.function, Some(Function::AllReduce));
    assert_eq!((row.size, row.count, row.root), (1 << 20, 1 << 18, -1));
    assert_eq!((&row.datatype[..], &row.redop[..]), ("float", "sum"));
    let (out, within) = (row.out_of_place.as_ref(), row.in_place.as_ref());
    let (out, within) = (out.expect("measured"), within.expect("measured"));
    assert_eq!((out.time_us, out.wrong), (Some(20.97), Some(2)));
    assert_eq!((within.busbw, within.wrong), (Some(52.43), None));
    assert_eq!(table.wrong(), Some(2));
    let average = table.average_busbw().expect("measured");
    assert!((average - 25.6575).abs() < 1e-9, "{average}");
}

#[test]
fn the_average_of_nccl_tests_is_kept_and_another_one_of_the_lines_is_said() {
    assert_eq!(read(TEXT).expect("sound").about, Vec::<String>::new());
    let other = TEXT.replace("25.6575", "24.1000");
    let table = read(&other).expect("sound");
    assert_eq!(table.average_busbw(), Some(24.1));
    let said =
        "the average bus bandwidth that was read is 24.1000; of the lines here it is 25.6575";
    assert_eq!(table.about, [said]);
    assert!(
        table.text().contains("# Avg bus bandwidth    : 24.1"),
        "{}",
        table.text()
    );
    // Of two programs' output there is no common one.
    let table = read(&format!("{TEXT}{other}")).expect("sound");
    assert!(table
        .average_busbw()
        .is_some_and(|mean| (mean - 25.6575).abs() < 1e-9));
}

#[test]
fn lines_of_launchers_and_logs_and_a_cut_off_end_do_not_hide_the_rows() {
    let expected = read(TEXT).expect("sound");
    let tagged = |tag: &str| -> String {
        let lines = TEXT.lines().map(|line| format!("{tag}{line}\n"));
        lines.collect()
    };
    for tag in ["[1,0]<stdout>:", "0: "] {
        assert_eq!(read(&tagged(tag)).expect(tag), expected);
    }
    let log = "10-0-0-1:4321:4330 [0] NCCL INFO Connected all rings\n0: NCCL WARN something\n";
    assert_eq!(read(&format!("{TEXT}{log}")).expect("sound"), expected);
    // Killed while it printed a row.
    let begun = "     2097152        524288     float     sum      -1    30";
    let cut = read(&format!("{TEXT}{begun}")).expect("sound");
    assert_eq!(cut.rows, expected.rows);
    assert_eq!(cut.about, ["line 18 was cut off and is left out"]);
    let within = read(&format!("{TEXT}{begun}\n")).expect_err("a row less");
    assert!(format!("{within:#}").contains("line 18"), "{within:#}");
}

fn printed(table: &Table, error: Option<&str>) -> String {
    serde_json::to_string(&json::of(table, None, error)).expect("JSON")
}

#[test]
fn a_run_of_ours_that_ended_early_says_so() {
    let table = read(TEXT).expect("sound");
    let text = printed(&table, Some("rank 1 ended"));
    let again = read(&text).expect("sound");
    assert_eq!(again.about, ["ended early: rank 1 ended"]);
    assert_eq!(again.rows, table.rows);
    assert!(read(r#"{"results": []}"#).is_err());
}

#[test]
fn older_text_without_root_and_names_above() {
    let text = "\
# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid   9 on node-b device  0 [0x07] Tesla V100
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2   float     sum    12.30    0.00    0.00  0e+00    12.10    0.00    0.00  0e+00
";
    let table = read(text).expect("sound");
    let row = &table.rows[0];
    assert_eq!((row.function, row.root, row.count), (None, -1, 2));
    assert_eq!(row.in_place.as_ref().and_then(|f| f.time_us), Some(12.1));
    assert_eq!(table.wrong(), Some(0));
    assert_eq!(table.devices[0].hostname, "node-b");
}

#[test]
fn text_with_more_columns() {
    let text = include_str!("data/alltoall_with_more_columns.txt");
    let table = read(text).expect("sound");
    let row = &table.rows[0];
    assert_eq!(row.function, Some(Function::AlltoAll));
    let times = row.sides().map(|f| f.time_us).collect::<Vec<_>>();
    assert_eq!(times, [Some(10.5), Some(10.4)]);
}

#[test]
fn json_of_nccl_tests() {
    let text = include_str!("data/broadcast.json");
    let table = read(text).expect("sound");
    let row = &table.rows[0];
    assert_eq!((row.function, row.root), (Some(Function::Broadcast), 1));
    let wrong: Vec<Option<u64>> = row.sides().map(|f| f.wrong).collect();
    assert_eq!(wrong, [Some(0), None]);
    assert_eq!(table.devices[0].device_info, "NVIDIA H200");
}

#[test]
fn what_is_read_is_written_and_read_again() {
    let table = read(TEXT).expect("sound");
    let without_about = |mut table: Table| {
        table.about.clear();
        table
    };
    let again = read(&printed(&table, None)).expect("sound");
    assert_eq!(without_about(again), table);
    let mut again = read(&table.text()).expect("sound");
    // The text has no line for the library alone.
    again.nccl_version = table.nccl_version;
    assert_eq!(again, table);
}

#[test]
fn a_figure_that_is_infinite_is_left_out_and_its_line_is_named() {
    let whole = read(TEXT).expect("sound");
    for value in ["inf", "nan", "-nan"] {
        let text = TEXT.replace("50.00   50.00       2", &format!("50.00   {value}       2"));
        let table = read(&text).expect("the rest is sound");
        assert_eq!(table.rows.len(), whole.rows.len(), "{value}");
        let lost = |table: &Table| {
            let rows = table
                .rows
                .iter()
                .flat_map(|row| [&row.out_of_place, &row.in_place]);
            rows.flatten().filter(|side| side.busbw.is_none()).count()
        };
        assert_eq!(lost(&table), lost(&whole) + 1, "{value}");
        let said = format!("line 13 has `{value}`, which is no figure and is left out");
        assert!(table.about.contains(&said), "{:?}", table.about);
    }
}

#[test]
fn what_can_not_be_read_is_told_with_its_line() {
    let broken = |from: &str, to: &str| {
        let error = read(&TEXT.replace(from, to)).expect_err("broken");
        format!("{error:#}")
    };
    let short = broken("   52.43     N/A", "");
    assert!(short.contains("line 13: expected 13 columns"), "{short}");
    let word = broken("50.00   50.00       2", "50.00   fast       2");
    assert!(
        word.contains("line 13: expected a number under busbw, found `fast`"),
        "{word}"
    );
    let nothing = read("# nothing\n").expect_err("no figures").to_string();
    assert!(nothing.contains("no line of figures"), "{nothing}");
    let other = read("{\"a\": 1}").expect_err("other JSON").to_string();
    assert!(other.contains("no `results`"), "{other}");
    assert!(read("{\"results\": [{}]}").is_err());
    assert!(read("{").is_err());
}

/// The table of `TEXT` below other devices, given as rank and group.
fn with_devices(devices: &[(u32, u32)]) -> Table {
    let device = |(at, (rank, group)): (usize, &(u32, u32))| {
        format!("#  Rank {rank:2} Group {group:2} Pid {at} on host device {at} [0000:04:00] NVIDIA H100\n")
    };
    let devices: String = devices.iter().enumerate().map(device).collect();
    let others = TEXT.lines().filter(|line| !line.contains(" Rank "));
    let mut text = String::new();
    for line in others {
        text += &format!("{line}\n");
        if line.contains("Using devices") {
            text += &devices;
        }
    }
    read(&text).expect("sound")
}

#[test]
fn ranks_that_communicate_with_each_other_are_counted() {
    let nranks = |table: &Table| table.nranks_of(&table.rows[0]);
    // NCCL_TESTS_SPLIT="MOD 2".
    let split = with_devices(&[(0, 0), (1, 1), (2, 0), (3, 1)]);
    assert_eq!(nranks(&split), Some(2));
    assert!(split
        .about
        .iter()
        .any(|said| said == "2 groups of 2 ranks each ran at the same time"));
    // Without MPI, each program is alone.
    let alone = with_devices(&[(0, 0), (0, 0), (0, 0)]);
    assert_eq!(nranks(&alone), Some(1));
    assert!(
        alone.about.iter().any(|said| said.contains("MPI=1")),
        "{:?}",
        alone.about
    );
    let nodes = with_devices(&[(0, 0), (1, 0), (0, 0), (1, 0)]);
    assert_eq!(nranks(&nodes), Some(2));
    assert!(
        nodes.about[0].starts_with("2 runs of 2 ranks each"),
        "{:?}",
        nodes.about
    );
    // Groups of three and one.
    assert_eq!(
        nranks(&with_devices(&[(0, 0), (1, 0), (2, 0), (3, 1)])),
        None
    );
    assert_eq!(
        nranks(&with_devices(&[(0, 0), (1, 0), (2, 0), (3, 0)])),
        Some(4)
    );
}

#[test]
fn runs_of_other_numbers_of_ranks_in_one_file_keep_them() {
    let more = TEXT
        .replace("Rank  1", "Rank  7")
        .replace("#  Rank  0", "#  Rank  6");
    let devices: Vec<&str> = TEXT
        .lines()
        .filter(|line| line.contains(" Rank "))
        .collect();
    let more = more.replace(
        "# Using devices",
        &format!("# Using devices\n{}", devices.join("\n")),
    );
    let both = read(&format!("{TEXT}{more}")).expect("sound");
    let found: Vec<Option<u32>> = both.rows.iter().map(|row| both.nranks_of(row)).collect();
    let half = found.len() / 2;
    assert!(found[..half].iter().all(|n| *n == Some(2)), "{found:?}");
    assert!(found[half..].iter().all(|n| *n == Some(4)), "{found:?}");
}

#[test]
fn a_run_that_failed_is_not_ok() {
    let said = "node-2: Test NCCL failure common.cu:303 'remote process exited'";
    let table = read(&format!(
        "{TEXT}{said}\n .. node-2 pid 25146: Test failure common.cu:400\n"
    ));
    let table = table.expect("sound");
    let failed = table.failed.as_deref().expect("failed");
    assert!(
        failed.starts_with(&format!("{said}, pid 25146, after the figures of "))
            && failed.ends_with('B'),
        "{failed}"
    );
    let page = table.text();
    assert!(
        page.contains(&format!("# the run failed: {failed}")),
        "{page}"
    );
    assert!(page.contains("Out of bounds values : not known, the run failed"));
}

#[test]
fn text_that_lost_its_hashes_and_other_launchers_tags_are_read() {
    let expected = read(TEXT).expect("sound");
    let pasted = TEXT.replace('#', "");
    assert_eq!(
        read(&pasted.replace("wrong", "#wrong"))
            .expect("sound")
            .rows,
        expected.rows
    );
    for tag in [
        "[0] ",
        "[rank0]:",
        "[pod/job-0/main] ",
        "node-1: ",
        "[host@1,0]<stdout>:",
        "[node-1:0] ",
        "2026-08-21T10:00:00.123Z ",
        "2026-08-21 10:00:00 ",
        "nccl-tests-launcher-abc  | ",
        "(RayWorker pid=77, ip=10.0.0.1) ",
        "2026-08-21 10:00:00 | INFO | ",
        "[pod/job-0/main] 2026-08-21T10:00:00.123456789Z ",
        "2026-08-21T10:00:00.123Z [1,0]<stdout>:",
    ] {
        let tagged: String = TEXT.lines().map(|line| format!("{tag}{line}\n")).collect();
        assert_eq!(read(&tagged).expect("sound").rows, expected.rows, "{tag}");
    }
    let old = "# bytes N type op time algbw busbw res\n 1024 256 float sum 1 1 1 0\n";
    let error = read(old).expect_err("not read").to_string();
    assert!(error.contains("2018"), "{error}");
}

#[test]
fn a_text_without_the_end_of_its_run_is_cut() {
    let whole = read(TEXT).expect("sound");
    let lines = TEXT
        .lines()
        .filter(|line| !line.contains("Avg bus bandwidth"));
    let without: String = lines.map(|line| format!("{line}\n")).collect();
    let cut = read(&without).expect("sound");
    assert_eq!((whole.is_cut, cut.is_cut), (false, true));
    let killed = read(&format!("{TEXT}Segmentation fault (core dumped)\n")).expect("sound");
    let failed = killed.failed.expect("it died");
    assert!(
        failed.starts_with("Segmentation fault (core dumped), after"),
        "{failed}"
    );
    assert!(
        cut.about[0].starts_with("the text ends before the average"),
        "{:?}",
        cut.about
    );
}

#[test]
fn alltoallv_is_alltoall_with_a_remark() {
    let text = TEXT.replace("all_reduce_perf", "alltoallv_perf");
    let table = read(&text).expect("sound");
    assert_eq!(table.rows[0].function, Some(Function::AlltoAll));
    assert!(
        table.about[0].starts_with("alltoallv stands here as AlltoAll"),
        "{:?}",
        table.about
    );
}

#[test]
fn infinity_in_json_is_no_figure() {
    let text = r#"{"results": [{"size": 8, "count": 2, "type": "float", "out_of_place":
        {"time": 0.0, "alg_bw": inf, "bus_bw": -nan, "nwrong": 0}, "note": "inf \" nan"}]}"#;
    let table = read(text).expect("sound");
    let side = table.rows[0].out_of_place.as_ref().expect("measured");
    assert_eq!(
        (side.time_us, side.algbw, side.busbw),
        (Some(0.0), None, None)
    );
}

/// A run of a version that did not print its program: ranks, reduction, root, factor of the bus bandwidth.
fn of_older_version(ranks: u32, redop: &str, root: i32, factor: f64) -> Option<Function> {
    let mut text = String::from("# nThread 1 nGpus 1\n# Using devices\n");
    for rank in 0..ranks {
        text += &format!(
            "#  Rank {rank} Group 0 Pid {} on node-1 device 0 [0x0{rank}] NVIDIA A100\n",
            700 + rank
        );
    }
    text += "#   size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    for (size, algbw) in [(1 << 10, 0.03), (1 << 20, 12.34), (1 << 30, 98.76)] {
        let busbw = algbw * factor;
        let side = format!("{:.2} {algbw:.2} {busbw:.2} 0", size as f64 / algbw / 1e3);
        text += &format!("{size} {} float {redop} {root} {side} {side}\n", size / 4);
    }
    text += "# Avg bus bandwidth    : 10\n";
    let table = read(&text).expect("sound");
    let first = table.rows[0].function;
    assert!(table.rows.iter().all(|row| row.function == first));
    first
}

#[test]
fn an_older_version_s_function_is_known_by_its_bandwidths_if_they_leave_one() {
    for (ranks, redop, root, factor, function) in [
        (8, "sum", -1, 2.0 * 7.0 / 8.0, Some(Function::AllReduce)),
        (8, "sum", -1, 7.0 / 8.0, Some(Function::ReduceScatter)),
        (8, "sum", 0, 1.0, Some(Function::Reduce)),
        (8, "none", 0, 1.0, Some(Function::Broadcast)),
        // AllGather or AlltoAll.
        (8, "none", -1, 7.0 / 8.0, None),
        // AllReduce, or sends and receives.
        (2, "sum", -1, 1.0, None),
        (8, "sum", -1, 1.0, None),
        (8, "sum", -1, 1.5, None),
    ] {
        let found = of_older_version(ranks, redop, root, factor);
        assert_eq!(
            found, function,
            "{ranks} ranks, {redop}, root {root}, {factor}"
        );
    }
}
