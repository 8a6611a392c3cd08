//! Whether the host is ahead of its GPU.
//!
//! A launch that the GPU comes to long after the host made it had other work before it. If that is so for
//! nearly all launches, the host could be slower without anybody noticing.

/// The GPU came to a launch so much later than the host, ns: far longer than a launch takes on an idle stream
/// (5 to 10 us), and about as long as the host needs for a hundred more.
const FAR_NS: f64 = 1e6;
/// So many launches decide, and count half as much when there are twice as many.
const ENOUGH: u32 = 64;

/// How far the GPU was behind at the newest launches that were timed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lead {
    launches: u32,
    far: u32,
}

impl Lead {
    /// The GPU began a launch so many ns after the host made it.
    pub fn add(&mut self, behind_ns: f64) {
        self.launches += 1;
        self.far += u32::from(behind_ns >= FAR_NS);
        if self.launches >= 2 * ENOUGH {
            self.launches /= 2;
            self.far /= 2;
        }
    }

    /// Nine of ten launches had other work before them.
    pub fn is_ahead(self) -> bool {
        self.launches >= ENOUGH && self.far * 10 >= self.launches * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_recent_launches_decide() {
        let mut lead = Lead::default();
        (0..ENOUGH - 1).for_each(|_| lead.add(3e6));
        assert!(!lead.is_ahead());
        lead.add(3e6);
        assert!(lead.is_ahead());
        (0..ENOUGH).for_each(|_| lead.add(8e3));
        assert!(!lead.is_ahead());
        (0..20 * ENOUGH).for_each(|i| lead.add(if i % 20 == 0 { 8e3 } else { 2e6 }));
        assert!(lead.is_ahead());
    }
}
