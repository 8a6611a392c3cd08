//! What communicators, lanes and sizes are called on a time line.

use std::collections::HashMap;
use tables::{Capture, Shape};

/// The program's name of a communicator, else its id; nothing if its definition is lost.
pub fn communicator<'a>(capture: &'a Capture, shape: &Shape) -> Option<&'a str> {
    let communicator = capture.communicators.get(shape.communicator? as usize)?;
    Some(communicator.name.as_ref().unwrap_or(&communicator.id))
}

/// A size in the largest unit that it has one of, to three digits: `25 MiB`, `3.91 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let value = bytes as f64 / unit as f64;
    let digits = match value {
        _ if bytes.is_multiple_of(unit) => 0,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

/// What a communicator is for, in few words: its name, and whose it is.
fn role(capture: &Capture, shape: &Shape) -> String {
    let communicator = shape.communicator.map(|c| c as usize);
    purpose(capture, communicator, shape.uid)
}

/// The same, by the communicator's index in the capture and its number in a process.
pub(crate) fn purpose(capture: &Capture, communicator: Option<usize>, uid: u32) -> String {
    let Some(of) = communicator.and_then(|c| capture.communicators.get(c)) else {
        return format!("communicator number {uid}");
    };
    let ranks = of.members.iter().map(|m| capture.processes[m.process].rank);
    let members = match ranks.collect::<Option<Vec<u32>>>() {
        Some(ranks) if ranks.len() == 1 => format!("rank {}", ranks[0]),
        Some(ranks) => format!("ranks {}", analyze::spelling::ranges(ranks)),
        None => format!("{} processes", of.members.len()),
    };
    match &of.name {
        Some(name) => format!("{name} ({members})"),
        None => members,
    }
}

/// What each lane is called, by the shape of its first call: what its communicator is for, and how it differs
/// from the other lanes of the process.
pub(super) fn titles(capture: &Capture, shapes: &[&Shape]) -> Vec<String> {
    let mut titles: Vec<String> = shapes.iter().map(|shape| role(capture, shape)).collect();
    let repeated = |titles: &[String]| -> Vec<bool> {
        let mut times: HashMap<&String, u32> = HashMap::new();
        for title in titles {
            *times.entry(title).or_default() += 1;
        }
        titles.iter().map(|title| times[title] > 1).collect()
    };
    let mut tell_apart = |more: &dyn Fn(&Shape) -> String| {
        let is = repeated(&titles);
        for ((title, shape), _) in titles.iter_mut().zip(shapes).zip(is).filter(|(_, is)| *is) {
            title.push_str(&more(shape));
        }
    };
    tell_apart(&|shape| match communicator_id(capture, shape) {
        Some(id) => format!(" {}", &id[..id.len().min(6)]),
        None => String::new(),
    });
    tell_apart(&|shape| match shape.stream {
        0 => ", stream unknown".to_owned(),
        stream => format!(", stream {stream:#x}"),
    });
    titles
}

fn communicator_id<'a>(capture: &'a Capture, shape: &Shape) -> Option<&'a str> {
    let communicator = capture.communicators.get(shape.communicator? as usize)?;
    Some(&communicator.id)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_three_digits() {
        let sizes = [
            0,
            1023,
            1024,
            4_100_000,
            26_214_400,
            26_236_416,
            1_000_000_000,
        ];
        let words = [
            "0 B", "1023 B", "1 KiB", "3.91 MiB", "25 MiB", "25.0 MiB", "954 MiB",
        ];
        assert_eq!(sizes.map(size), words);
    }
}
