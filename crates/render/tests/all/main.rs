//! Pages, exports and tables of jobs, as they are printed.

mod bundle;
mod clocks;
mod damage;
mod diff;
mod events;
mod explain;
mod export;
mod first_lines;
mod hang;
mod html;
mod in_mpi;
mod kernels;
mod one_price;
mod picture;
mod readers;
mod recorded;
mod report;
mod set_up;
mod shares;
mod tidy;
mod view;
