//! Jobs of which all is known: ranks with a host, streams and communicators, played in memory.
//!
//! A script ([`scripts`]) says what each rank does in a step. [`play`] works out when it happens, and
//! [`play::Played::capture`] reads the whole as a capture, as the recorder would have written it. No file is
//! needed for that.
//!
//! [`Drawn`] is a job from a seed, with a cause and with what was recorded of it. [`score`] holds what a
//! report says of it against the truth, and a [`Matrix`] sums up many. `examples/play.rs` is the command.
//!
//! Truth: the same script with the same noise without the fault ([`play::Played::seconds`]).

mod as_of;
mod cause;
mod communicators;
mod drawn;
mod evidence;
pub mod files;
pub mod hanging;
pub mod held_out;
mod picture;
pub mod play;
mod random;
mod recording;
pub mod ring;
mod score;
pub mod scripts;
mod shape;
mod step;

pub use cause::{Cause, Does, When, Why};
pub use communicators::communicator;
pub use drawn::{Culprit, Drawn, Outcome};
pub use evidence::{Evidence, Ranks};
pub use play::{play, play_with};
pub use random::Random;
pub use score::{score, Matrix, Scored, StepsAre, Told, ToldSteps, Verdict, MATTERS};
pub use shape::{Kind, Shape, KINDS};
pub use step::{Fault, Job, SlowLink, Step, Tails, Way};
