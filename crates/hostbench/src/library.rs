//! Functions of libraries that hosts need not have: CUDA's driver and NVML.
//!
//! [`functions!`] makes a table of functions, which are looked up together, and [`ask!`] calls one of them.
//!
//! Rule: a library, or a function of it, that is not there is the reason why a figure is not known, and never
//! an error that ends the run.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::OsStr;

/// Opens a library for as long as the process runs, because its threads run that long.
pub fn open(path: &OsStr, whose: &str) -> Result<&'static Library, String> {
    // SAFETY: the initializers of these libraries have no demands on their caller.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|_| format!("no {whose}"))?;
    Ok(Box::leak(Box::new(library)))
}

/// A table of functions of a library: `Table of "the library" { field = "symbol" (arguments); }`.
macro_rules! functions {
    ($table:ident of $whose:literal { $($field:ident = $symbol:literal ($($arg:ty),*);)* }) => {
        struct $table {
            $($field: unsafe extern "C" fn($($arg),*) -> std::ffi::c_int,)*
        }

        impl $table {
            /// The library's name of a function.
            fn symbol(field: &str) -> &'static str {
                match field {
                    $(stringify!($field) => $symbol,)*
                    _ => $whose,
                }
            }

            fn load(library: &'static libloading::os::unix::Library) -> Result<$table, String> {
                Ok($table {
                    // SAFETY: the signatures are those of the library's header, where names with a version
                    // stay.
                    $($field: *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }
                        .map_err(|_| concat!($whose, " has no ", $symbol).to_owned())?,)*
                })
            }
        }
    };
}

/// Calls a function of a table, and says which one failed: `ask!(Table, table, function(arguments))`.
macro_rules! ask {
    ($table:ident, $of:expr, $function:ident($($arg:expr),*)) => {
        // SAFETY: handles that the library gave, live places for its results, and memory of the length given.
        match unsafe { ($of.$function)($($arg),*) } {
            0 => Ok(()),
            code => Err(format!("{} failed with {code}", $table::symbol(stringify!($function)))),
        }
    };
}

pub(crate) use {ask, functions};
