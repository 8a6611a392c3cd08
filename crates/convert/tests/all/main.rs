//! Files of other tools, read as captures.

mod flight;
mod inspector;
mod kineto;
