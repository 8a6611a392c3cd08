//! Lengths of unions of times.

use crate::time::Nanos;

/// From when to when: ns since 1970 on the clock of a GPU's host.
pub type Span = (i64, i64);

/// How long a span is.
pub fn length(span: Span) -> Nanos {
    Nanos::from(span.1 - span.0)
}

/// The union of spans: ascending, apart from each other, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Union(Vec<Span>);

impl Union {
    /// Of spans in any order.
    pub fn of(mut spans: Vec<Span>) -> Union {
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        let mut apart: Vec<Span> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        Union(apart)
    }

    /// The spans, ascending.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its length.
    pub fn length(&self) -> Nanos {
        self.0.iter().map(|span| length(*span)).sum()
    }

    /// What is in both.
    pub fn and(&self, other: &Union) -> Union {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            let common = (one.0.max(two.0), one.1.min(two.1));
            if common.0 < common.1 {
                both.push(common);
            }
            if one.1 < two.1 {
                a.next();
            } else {
                b.next();
            }
        }
        Union(both)
    }

    /// What of it is within `span`.
    pub fn within(&self, span: Span) -> Union {
        let first = self.0.partition_point(|s| s.1 <= span.0);
        let within = self.0[first..].iter().take_while(|s| s.0 < span.1);
        Union(within.map(|s| (s.0.max(span.0), s.1.min(span.1))).collect())
    }

    /// What is in it, and not in the other.
    pub fn without(&self, other: &Union) -> Union {
        let mut rest = Vec::with_capacity(self.0.len());
        for (mut from, to) in self.0.iter().copied() {
            for (begin, end) in other.within((from, to)).0 {
                rest.push((from, begin));
                from = end;
            }
            rest.push((from, to));
        }
        rest.retain(|(from, to)| from < to);
        Union(rest)
    }

    /// What is in at least one.
    pub fn or(&self, other: &Union) -> Union {
        Union::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// How much of `span` it covers.
    pub fn covers(&self, span: Span) -> Nanos {
        let first = self.0.partition_point(|s| s.1 <= span.0);
        let within = self.0[first..].iter().take_while(|s| s.0 < span.1);
        let within = within.map(|s| (s.0.max(span.0), s.1.min(span.1)));
        within.map(length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        let span = (0i64..200, 0i64..20).prop_map(|(at, long)| (at, at + long));
        proptest::collection::vec(span, 0..30)
    }

    fn bits(spans: &[Span]) -> Vec<bool> {
        let has = |at: i64| spans.iter().any(|s| s.0 <= at && at < s.1);
        (0..240).map(has).collect()
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_counted_moments(a in spans(), b in spans(), from in 0i64..200,
            long in 0i64..60) {
            let (one, two) = (Union::of(a.clone()), Union::of(b.clone()));
            let (in_a, in_b) = (bits(&a), bits(&b));
            let count = |of: &dyn Fn(usize) -> bool| {
                Nanos((0..240).filter(|i| of(*i)).count() as f64)
            };
            prop_assert_eq!(one.length(), count(&|i| in_a[i]));
            prop_assert_eq!(one.and(&two).length(), count(&|i| in_a[i] && in_b[i]));
            prop_assert_eq!(one.without(&two).length(), count(&|i| in_a[i] && !in_b[i]));
            prop_assert_eq!(one.without(&two), Union::of(one.without(&two).0));
            prop_assert_eq!(one.or(&two).length(), count(&|i| in_a[i] || in_b[i]));
            let span = (from, from + long);
            let inside = |i: usize| (i as i64) >= span.0 && (i as i64) < span.1;
            prop_assert_eq!(one.covers(span), count(&|i| in_a[i] && inside(i)));
            prop_assert_eq!(one.within(span).length(), one.covers(span));
        }
    }
}
