//! Calls whose trace files were rotated away, as totals.
//!
//! Rule: they stand beside the totals of the live part, in entries of their own; whoever sums over totals has
//! both.

use crate::clock::Clock;
use crate::process::{HistogramOf, Process, Total};
use capture::live::bucket_middle;
use capture::rotated::Rotated;
use capture::rows::{Shape, Shapes};

/// Adds the account of removed files to a process.
pub(crate) fn add(rotated: &Rotated, clock: &Clock, shapes: &mut Shapes, process: &mut Process) {
    process.rotated = rotated.account.calls();
    process.rotated_unlisted = rotated.account.unlisted;
    for (key, sums) in &rotated.account.entries {
        let [func, datatype, algorithm, protocol] = key.names;
        let shape = Shape {
            comm: key.comm,
            count: key.count,
            func,
            datatype,
            algorithm,
            protocol,
            flags: key.flags,
            nchannels: key.nchannels,
            root: -1,
            ..Shape::default()
        };
        let buckets = sums.histogram.iter();
        process.totals.push(Total {
            shape: shapes.intern(shape),
            folded: sums.calls,
            rowless: 0,
            timed: sums.timed,
            sum: sums.sum,
            min: sums.min,
            max: sums.max,
            host_ns: clock.duration(sums.host),
            histogram: buckets
                .map(|(number, n)| {
                    let (octave, index) = (usize::from(number >> 6), usize::from(number & 63));
                    (bucket_middle(octave, index), *n)
                })
                .collect(),
            histogram_of: match sums.timed {
                0 => HistogramOf::Host,
                timed if timed == sums.calls => HistogramOf::Gpu,
                _ => HistogramOf::Both,
            },
        });
    }
}
