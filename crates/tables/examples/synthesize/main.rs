//! Writes a large capture for `bench/report.sh`: `synthesize FOLDER RANKS CALLS host|stamps`, CALLS being of
//! each rank.

mod job;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |word: &String| word.parse::<u64>().ok().filter(|n| *n > 0);
    let parsed = match &words[..] {
        [folder, ranks, calls, timing] if ["host", "stamps"].contains(&timing.as_str()) => {
            let ranks = number(ranks).and_then(|n| u32::try_from(n).ok());
            ranks
                .zip(number(calls))
                .map(|n| (folder, n, timing == "stamps"))
        }
        _ => None,
    };
    let Some((folder, (ranks, calls), stamps)) = parsed else {
        eprintln!("usage: synthesize FOLDER RANKS CALLS host|stamps");
        std::process::exit(2);
    };
    job::write(folder.as_ref(), ranks, calls, stamps)
}
