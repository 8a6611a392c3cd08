//! Attaches to a program that already runs and calls a libnccl.so.2 which does nothing. Skipped with the
//! reason if this machine allows no probes.

#![cfg(target_arch = "x86_64")]

mod communicators;
mod containers;
mod counts;
mod ends;
mod job;
mod libraries;
mod options;
mod processes;
mod session;
mod told;
