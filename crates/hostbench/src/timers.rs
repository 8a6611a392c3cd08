//! How exactly the host sleeps, as cyclictest of rt-tests measures it.

use crate::item::{Items, Unit};
use crate::timing::median;
use std::time::{Duration, Instant};

/// How much later than asked a sleep ends.
pub fn measure(items: &mut Items) {
    items.group("Timers");
    // SAFETY: a live place for the time.
    let resolution = unsafe {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        libc::clock_getres(libc::CLOCK_MONOTONIC, &mut time);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    items.nanos(
        "timer_resolution",
        "what the kernel says its timers resolve",
        resolution,
    );
    for (name, asked, times) in [
        ("sleep_50us", Duration::from_micros(50), 100),
        ("sleep_1ms", Duration::from_millis(1), 20),
    ] {
        let late = median(times, || {
            let start = Instant::now();
            std::thread::sleep(asked);
            start.elapsed().saturating_sub(asked).as_nanos() as f64 / 1e3
        });
        let what = format!("how late a sleep of {asked:?} ends; median");
        items.add(name, Unit::Micros, &what, Ok(late));
    }
}
