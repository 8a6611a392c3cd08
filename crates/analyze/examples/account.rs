//! Prints the account of captures: `cargo run -p ncclscope-analyze --example account CAPTURE…`.

fn main() {
    for path in std::env::args().skip(1) {
        let capture = tables::Capture::open(std::path::Path::new(&path)).expect("a capture");
        let report = analyze::report(&capture);
        println!("{path}");
        match &report.account {
            None => println!("  no account"),
            Some(account) => {
                println!(
                    "  {} steps of {:.2} ms, {} skipped",
                    account.steps,
                    account.wall_us / 1e3 / account.steps as f64,
                    account.skipped
                );
                for r in &account.ranks {
                    let s = |us: f64| 100.0 * us / account.wall_us;
                    println!("    rank {:?}: work {:.1} wait {:.1} transfer {:.1} unknown {:.1} % known {:.2}",
                        r.rank, s(r.work_us), s(r.wait_us), s(r.transfer_us), s(r.unknown_us), r.known);
                }
                if let Some(a) = &account.answer {
                    println!("    ANSWER rank {:?} {:.2} s = {:.1} % [{:.2} {:.2}] {:?} {:?} stalls {} {:.2} s last {:?}",
                        a.rank, a.loss_us / 1e6, 100.0 * a.share, a.interval_us.0 / 1e6, a.interval_us.1 / 1e6,
                        a.cause, a.source, a.stalls, a.stalls_us / 1e6, a.last);
                }
            }
        }
        for f in &report.findings {
            println!(
                "    OLD {} {:?} {:?}",
                f.kind(),
                f.wall_us().map(|w| w / 1e6),
                f.subject
            );
        }
    }
}
