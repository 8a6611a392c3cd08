//! Live parts of processes that were killed: `ncclscope run` adopts them.

use crate::client::{shared_memory, CLIENT};
use crate::place::{stderr, Place};
use capture::block;
use capture::live::{row_state, Image, Layout};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

pub fn assert_adopted(place: &Place, count: usize) {
    let live = place.files("live");
    assert_eq!((live.len(), place.files("trace").len()), (count, count));
    for live in live {
        let bytes = fs::read(&live).expect("read");
        assert_eq!(bytes.len(), Layout::for_memory(0).bytes());
        let image = Image::copy(&bytes);
        let view = image.view().expect("a live part");
        assert_eq!(view.rows()[7].word.load(Relaxed), 7 << 2 | row_state::ALIVE);
        let trace = fs::read(live.with_extension("trace")).expect("there");
        assert_eq!(
            block::trace_id(&trace),
            Ok(view.header().trace_id.load(Relaxed))
        );
        assert_eq!(fs::metadata(&live).expect("there").mode() & 0o777, 0o600);
        assert!(
            fs::metadata(&live).expect("there").blocks() * 512 < bytes.len() as u64,
            "zeros are holes"
        );
    }
}

#[test]
fn a_killed_process_among_others_leaves_its_live_part() {
    let place = Place::new();
    let done = place.run_playing("play killed & play killed & play ended & wait; exit 0");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(
        stderr(&done).ends_with("capture in c: 3 processes, 15 calls; next: ncclscope report c\n"),
        "{}",
        stderr(&done)
    );
    assert_eq!(
        (
            place.files("live").len(),
            place.files("trace").len(),
            place.files("snap").len()
        ),
        (2, 3, 1)
    );
}

#[test]
fn the_killed_program_itself_leaves_its_live_part() {
    let place = Place::new();
    let done = place.run_playing(&format!(
        "PLAY=killed exec \"$CLIENT\" --exact {CLIENT} --ignored --nocapture"
    ));
    assert_eq!(done.status.code(), Some(128 + 9));
    assert_adopted(&place, 1);
}

#[test]
fn a_process_killed_before_its_trace_file_was_made_gets_one() {
    let place = Place::new();
    place.run_playing("play killed-before-its-trace-file");
    assert_adopted(&place, 1);
}

#[test]
fn children_that_hold_the_connection_do_not_hide_a_death() {
    let place = Place::new();
    place.run_playing("play killed-after-a-fork; exit 0");
    assert_adopted(&place, 1);
}

#[test]
fn hostile_messages_change_nothing() {
    let place = Place::new();
    let done = place.run_playing("play hostile; play killed; exit 0");
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(
        (place.files("live").len(), place.files("trace").len()),
        (1, 2),
        "{}",
        stderr(&done)
    );
    assert!(
        !place.path().join("outside.live").exists() && !place.path().join("outside.trace").exists()
    );
}

/// Live parts in shared memory that belong to `place`.
pub fn in_shared_memory(place: &Place) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(shared_memory())
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    let here = place.path().to_string_lossy().into_owned();
    found.retain(|p| {
        // Other jobs of this machine make theirs meanwhile, which begin empty.
        let head = fs::read(p).map(|bytes| bytes.get(..4096).map(<[u8]>::to_vec));
        head.is_ok_and(|h| h.is_some_and(|h| String::from_utf8_lossy(&h).contains(&here)))
    });
    found
}

#[test]
fn what_is_left_in_shared_memory_is_adopted_at_the_end() {
    let place = Place::new();
    place.run_playing("play shared-memory; exit 0");
    assert_adopted(&place, 1);
    assert_eq!(in_shared_memory(&place), [] as [PathBuf; 0]);
}
