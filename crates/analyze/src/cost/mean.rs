//! A mean of few values and its interval.

use super::LEAST;
use crate::interval::CONFIDENCE;
use crate::streams::Share;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean of independent values, by Student's t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) variance: f64,
    pub(super) freedom: f64,
}

impl Mean {
    /// Known without error.
    pub(super) fn exactly(mean: f64) -> Mean {
        Mean {
            mean,
            variance: 0.0,
            freedom: f64::INFINITY,
        }
    }

    pub(super) fn of(values: &[f64]) -> Option<Mean> {
        if values.len() < LEAST {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Some(Mean {
            mean,
            variance: squares / (n - 1.0) / n,
            freedom: n - 1.0,
        })
    }

    pub(super) fn times(self, factor: f64) -> Mean {
        Mean {
            mean: self.mean * factor,
            variance: self.variance * factor * factor,
            ..self
        }
    }

    /// The sum of two, with Welch's degrees of freedom.
    pub(super) fn plus(self, other: Mean) -> Mean {
        let variance = self.variance + other.variance;
        let part = |of: Mean| of.variance * of.variance / of.freedom;
        let freedom = variance * variance / (part(self) + part(other));
        Mean {
            mean: self.mean + other.mean,
            variance,
            freedom: if freedom.is_finite() {
                freedom.max(1.0)
            } else {
                f64::INFINITY
            },
        }
    }

    pub(super) fn share(self) -> Option<Share> {
        let error = if self.variance > 0.0 {
            let t = StudentsT::new(0.0, 1.0, self.freedom.min(1e6)).ok()?;
            t.inverse_cdf(0.5 + CONFIDENCE / 2.0) * self.variance.sqrt()
        } else {
            0.0
        };
        Some(Share {
            share: self.mean,
            interval: Some((self.mean - error, self.mean + error)),
        })
    }
}
