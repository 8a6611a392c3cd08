//! How long kernels of NCCL in kernel windows waited for the last rank.
//!
//! A kernel that carried out a call waited as that call did. Kernels in CUDA graphs have no calls, and calls
//! in windows may have no GPU time. There, kernels of one communicator that end together on every rank are
//! one operation. All ranks leave it together, so the shortest of them came last.
//!
//! Rule: nothing is said of a kernel unless every rank of its communicator has one that ends with it.

use super::NONE;
use crate::timeline::{PlacedKernel, Timeline};
use crate::typical::COMMON_END_NS;
use std::collections::{BTreeMap, HashMap};

/// Kernels of a communicator on one GPU of a process: their ends, and which they are.
type Ends = Vec<(i64, usize)>;

/// By process and kernel, the time from the last rank's arrival on, ns, or [`NONE`]. `of_calls` has it by
/// process and ticket of calls.
pub(super) fn of(
    timeline: &Timeline<'_>,
    kernels: &[Vec<PlacedKernel<'_>>],
    of_calls: &HashMap<(usize, u64), i64>,
) -> Vec<Vec<i64>> {
    let mut transfers: Vec<Vec<i64>> = kernels.iter().map(|of| vec![NONE; of.len()]).collect();
    let mut groups: BTreeMap<(u32, u32), BTreeMap<(usize, u32), Ends>> = BTreeMap::new();
    for (process, of_process) in kernels.iter().enumerate() {
        // Ends on clocks that are further apart say nothing.
        let error = timeline.host_error_ns(process).map(i64::from);
        let is_near = error.is_some_and(|error| error < COMMON_END_NS);
        for (number, kernel) in of_process.iter().enumerate() {
            let row = &kernel.row;
            if !row.communicates() {
                continue;
            }
            let span = kernel.slice.span;
            let known = row.ticket().and_then(|of| of_calls.get(&(process, of)));
            if let Some(transfer) = known {
                transfers[process][number] = (*transfer).min(span.end - span.begin);
            } else if let Some(communicator) = row.communicator().filter(|_| is_near) {
                let on_gpu = groups.entry(communicator).or_default();
                let ends = on_gpu.entry((process, row.ran.device)).or_default();
                ends.push((span.end, number));
            }
        }
    }
    for ((_, nranks), mut on_gpu) in groups {
        if on_gpu.len() < 2 || on_gpu.len() != nranks as usize {
            continue;
        }
        on_gpu.values_mut().for_each(|ends| ends.sort_unstable());
        let length = |process: usize, number: usize| {
            let span = kernels[process][number].slice.span;
            span.end - span.begin
        };
        for ((process, _), ends) in &on_gpu {
            for (end, number) in ends {
                let each = on_gpu.iter().map(|((other, _), ends)| {
                    let (at, number) = nearest(ends, *end)?;
                    ((at - end).abs() < COMMON_END_NS).then(|| length(*other, number))
                });
                // Itself is one of them.
                let shortest: Option<Vec<i64>> = each.collect();
                if let Some(shortest) = shortest.and_then(|all| all.into_iter().min()) {
                    transfers[*process][*number] = shortest;
                }
            }
        }
    }
    transfers
}

/// The end that is nearest to a moment. They are in order.
fn nearest(ends: &Ends, to: i64) -> Option<(i64, usize)> {
    let after = ends.partition_point(|(end, _)| *end < to);
    let near = ends[after.saturating_sub(1)..].iter().take(2);
    near.copied().min_by_key(|(end, _)| (end - to).abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_end_may_be_before_or_after() {
        let ends = vec![(10, 0), (20, 1), (40, 2)];
        let of = |to| nearest(&ends, to).map(|(_, number)| number);
        assert_eq!(
            [0, 14, 16, 20, 31, 90].map(of),
            [0, 0, 1, 1, 2, 2].map(Some)
        );
        assert_eq!(nearest(&Vec::new(), 3), None);
    }
}
