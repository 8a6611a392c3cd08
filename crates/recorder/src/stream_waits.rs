//! Streams that wait for collectives: since when a stream had nothing to do but to wait for a call.
//!
//! A program makes a compute stream wait for a collective with an event. It records the event on the
//! collective's stream, behind the collective. Then it lets the compute stream wait for the event.
//! [`crate::driver_watch`] sees both, and tells [`StreamWaits`]:
//!
//! ```text
//! NCCL: a launch begins on N        launching(N)               N: nothing is known
//! NCCL: the call has returned       returned(N, call)          N ──▶ call, if CUDA events time it
//! driver: event E recorded on N     recorded(E, N)             E ──▶ call
//! driver: stream S waits for E      awaited(S, E)              an event on S, before S waits
//! ```
//!
//! The event on S is one of the call's own ([`Ring::awaited`]). The time from it to the call's end is how
//! long S stood still for the call: its *exposed* time.
//!
//! NCCL itself makes streams of its own wait for a launch, before the call returns. These waits are left
//! out, because the launch's stream is entered only when the call has returned. A group of several calls on a
//! non-blocking communicator launches after it has returned. Its stream is entered behind the launch, and
//! then waits are left out if NCCL asks for them. If NCCL is linked into another library, that can't be told,
//! and waits for such a group are not seen.
//!
//! Rule: an event or a stream that is not in the tables costs one failed look-up. The tables have a fixed
//! size and take no lock. An entry that another one replaces is a wait that is not seen.

use crate::cuda::{Driver, OWN_STREAM, SHARED_STREAM};
use crate::gpu_events::{Awaited, Rings, Switch};
use crate::seats::thread;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// A stream as the driver was told of it.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// What the driver takes for it, whichever function it is given to.
    pub handle: u64,
    /// Differs for all streams of the process. Handles are aligned pointers, so no other stream has this.
    pub key: u64,
}

impl Stream {
    /// From a function for which 0 is the stream that all threads share.
    pub fn legacy(handle: u64) -> Stream {
        Stream::of(if handle == 0 { SHARED_STREAM } else { handle })
    }

    /// From a function for which 0 is the calling thread's own stream.
    pub fn per_thread(handle: u64) -> Stream {
        Stream::of(if handle == 0 { OWN_STREAM } else { handle })
    }

    fn of(handle: u64) -> Stream {
        let key = if handle == OWN_STREAM {
            thread() | OWN_STREAM
        } else {
            handle
        };
        Stream { handle, key }
    }
}

/// A call that CUDA events time: the number of its communicator's ring, and of its pair of events there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedCall {
    pub ring: u8,
    pub pair: u32,
}

/// See the module.
pub struct StreamWaits {
    /// Waits are to be seen.
    wanted: bool,
    /// A call was ever entered: before that, nothing is looked up.
    any: AtomicBool,
    /// The newest call on each stream.
    streams: CallsByHandle<6, 4>,
    /// The call that each event is behind.
    events: CallsByHandle<10, 4>,
}

impl StreamWaits {
    /// Without `wanted`, nothing is ever entered.
    pub fn new(wanted: bool) -> StreamWaits {
        StreamWaits {
            wanted,
            any: AtomicBool::new(false),
            streams: CallsByHandle::new(),
            events: CallsByHandle::new(),
        }
    }

    /// A launch begins on a stream, or one of an unknown time was made: no call is known to be its newest.
    #[inline]
    pub fn launching(&self, stream: u64) {
        if self.any.load(Relaxed) {
            self.streams.clear(Stream::legacy(stream).key);
        }
    }

    /// A call returned, and is the newest on this stream.
    pub fn returned(&self, stream: u64, call: TimedCall) {
        if !self.wanted {
            return;
        }
        self.streams.set(Stream::legacy(stream).key, call);
        self.any.store(true, Release);
    }

    /// The program recorded an event on a stream.
    #[inline]
    pub fn recorded(
        &self,
        event: u64,
        stream: Stream,
        driver: impl FnOnce() -> Option<&'static Driver>,
    ) {
        if !self.any.load(Relaxed) {
            return;
        }
        match self.streams.find(stream.key) {
            None => self.events.clear(event),
            Some(call) => self.recorded_behind(event, stream, call, driver()),
        }
    }

    #[cold]
    fn recorded_behind(
        &self,
        event: u64,
        stream: Stream,
        call: TimedCall,
        driver: Option<&Driver>,
    ) {
        // While the stream is captured, its events belong to the graph.
        if driver.is_some_and(|driver| !driver.is_capturing(stream.handle)) {
            self.events.set(event, call);
        } else {
            self.events.clear(event);
        }
    }

    /// An event is no more. Another may get its handle.
    #[inline]
    pub fn destroyed(&self, event: u64) {
        if self.any.load(Relaxed) {
            self.events.clear(event);
        }
    }

    /// A stream is about to wait for an event. What to do when the driver has refused, if something was
    /// recorded.
    #[inline]
    pub fn awaited(
        &self,
        stream: Stream,
        event: u64,
        rings: &Rings,
        switch: &Switch,
    ) -> Option<Awaited> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let call = self.events.find(event)?;
        rings.at(call.ring)?.awaited(switch, stream, call.pair)
    }
}

/// Calls by handle: sets of `WAYS` words, `1 << BITS` of them.
///
/// A word is `tag << 39 | (ring + 1) << 32 | pair`; 0 is a free one. A handle times an odd constant gives
/// the number of its set and the tag, which are its highest bits. With the golden ratio as that constant,
/// handles that lie closer together than 0.8 GiB (streams) or 14 GiB (events) are never confused. Of others,
/// one pair in 2^31 is. A full set loses its oldest call.
struct CallsByHandle<const BITS: u32, const WAYS: usize>(Box<[[AtomicU64; WAYS]]>);

const TAG: u32 = 39;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl<const BITS: u32, const WAYS: usize> CallsByHandle<BITS, WAYS> {
    fn new() -> Self {
        let free = || std::array::from_fn(|_| AtomicU64::new(0));
        CallsByHandle((0..1 << BITS).map(|_| free()).collect())
    }

    /// The set of a handle, and its tag, in place.
    #[inline]
    fn set_of(&self, handle: u64) -> (&[AtomicU64; WAYS], u64) {
        let mixed = handle.wrapping_mul(GOLDEN);
        let set = &self.0[(mixed >> (64 - BITS)) as usize];
        (set, mixed << BITS >> TAG << TAG)
    }

    #[inline]
    fn is(word: u64, tag: u64) -> bool {
        word != 0 && word >> TAG << TAG == tag
    }

    #[inline]
    fn ring(word: u64) -> u8 {
        (word >> 32 & 0x7f).wrapping_sub(1) as u8
    }

    #[inline]
    fn find(&self, handle: u64) -> Option<TimedCall> {
        let (set, tag) = self.set_of(handle);
        // Meets the Release in `set`: what the pair has is then seen.
        let mut words = set.iter().map(|word| word.load(Acquire));
        let word = words.find(|word| Self::is(*word, tag))?;
        Some(TimedCall {
            ring: Self::ring(word),
            pair: word as u32,
        })
    }

    fn set(&self, handle: u64, call: TimedCall) {
        let (set, tag) = self.set_of(handle);
        let own = |word: &&AtomicU64| Self::is(word.load(Relaxed), tag);
        let free = |word: &&AtomicU64| word.load(Relaxed) == 0;
        // Programs wait for new calls, and never for many of the events that they record.
        let age = |word: &&AtomicU64| {
            let word = word.load(Relaxed);
            if Self::ring(word) == call.ring {
                call.pair.wrapping_sub(word as u32)
            } else {
                call.pair % 2
            }
        };
        let place = set.iter().find(own).or_else(|| set.iter().find(free));
        let Some(place) = place.or_else(|| set.iter().max_by_key(age)) else {
            return;
        };
        let word = tag | u64::from(call.ring + 1) << 32 | u64::from(call.pair);
        place.store(word, Release);
    }

    #[inline]
    fn clear(&self, handle: u64) {
        let (set, tag) = self.set_of(handle);
        for word in set {
            let now = word.load(Relaxed);
            if Self::is(now, tag) {
                // Another thread may have given the place to another handle.
                let _ = word.compare_exchange(now, 0, Relaxed, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn call(pair: u32) -> TimedCall {
        TimedCall {
            ring: (pair % 64) as u8,
            pair,
        }
    }

    #[test]
    fn default_streams_have_keys_of_their_own() {
        assert_eq!(Stream::legacy(0).key, Stream::per_thread(1).key);
        assert_eq!(Stream::legacy(2).key, Stream::per_thread(0).key);
        assert_ne!(Stream::legacy(0).key, Stream::legacy(2).key);
        let other = std::thread::spawn(|| Stream::per_thread(0).key);
        assert_ne!(other.join().expect("ends"), Stream::per_thread(0).key);
        assert_eq!(Stream::per_thread(0x5000).key, 0x5000);
    }

    #[test]
    fn handles_of_a_heap_are_never_confused() {
        let table: CallsByHandle<9, 2> = CallsByHandle::new();
        // More than there is room for, at the distances of small objects.
        let handles: Vec<u64> = (0..20_000).map(|i| 0x55d0_1234_5000 + 0x70 * i).collect();
        for (pair, handle) in handles.iter().enumerate() {
            table.set(*handle, call(pair as u32));
            assert_eq!(table.find(*handle), Some(call(pair as u32)));
        }
        for (pair, handle) in handles.iter().enumerate() {
            let found = table.find(*handle);
            assert!(found.is_none() || found == Some(call(pair as u32)));
        }
        let kept = handles.iter().filter(|h| table.find(**h).is_some());
        assert!(kept.count() > 900);
    }

    #[test]
    fn events_of_calls_under_way_are_found() {
        // As PyTorch: each call has an event that is used again and that nobody waits for, and a new one that
        // is waited for when 100 calls more were made. Their handles lie anywhere.
        let waits = StreamWaits::new(true);
        let mut state = 1u64;
        let mut handle = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            0x7f00_0000_0000 + (state >> 28 << 4)
        };
        let pool: Vec<u64> = (0..128).map(|_| handle()).collect();
        let mut under_way = std::collections::VecDeque::new();
        let calls = (0..20_000).map(|pair| TimedCall { ring: 3, pair });
        let lost = calls.filter(|call| {
            waits
                .events
                .set(pool[call.pair as usize % pool.len()], *call);
            let event = handle();
            waits.events.set(event, *call);
            under_way.push_back((event, *call));
            let (event, call) = under_way[0];
            if under_way.len() <= 100 {
                return false;
            }
            under_way.pop_front();
            let found = waits.events.find(event);
            waits.events.clear(event);
            found != Some(call)
        });
        assert_eq!(lost.count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_found_was_set_last_and_not_cleared(
            steps in prop::collection::vec((0u64..40, prop::option::of(0u32..1 << 20)), 0..400)
        ) {
            let table: CallsByHandle<6, 4> = CallsByHandle::new();
            let mut truth = HashMap::new();
            for (handle, set) in steps {
                let handle = 0x7f00_0000_0000 + 64 * handle;
                match set {
                    Some(pair) => {
                        table.set(handle, call(pair));
                        truth.insert(handle, call(pair));
                    }
                    None => {
                        table.clear(handle);
                        truth.remove(&handle);
                    }
                }
                prop_assert_eq!(table.find(handle), truth.get(&handle).copied());
                for handle in (0..40).map(|i| 0x7f00_0000_0000 + 64 * i) {
                    let found = table.find(handle);
                    prop_assert!(found.is_none() || found == truth.get(&handle).copied());
                }
            }
        }
    }
}
