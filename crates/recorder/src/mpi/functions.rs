//! The functions of MPI that are seen, and ours in their place.
//!
//! Ours take whole registers and words of the stack, and hand them on as they are. In the C ABIs of x86-64
//! and aarch64 (Linux), every argument of these functions fills one register or one word, whether it is a
//! pointer or a number of 32 or 64 bits. So one function of ours fits MPICH, in which handles are numbers,
//! and Open MPI, in which they are pointers.
//!
//! Rule: ours add nothing but [`super::enter`] before the call and the end of its guard behind it. An
//! exception that a program's error handler throws through MPI goes on through ours.

use super::enter;
use crate::interpose::{self, Replacement};
use std::ffi::{c_int, c_void, CStr};
use std::mem::transmute;

/// Ours for each number of arguments. `PROFILING`: in place of `PMPI_…`, else of `MPI_…`.
macro_rules! takes {
    ($($name:ident ($($argument:ident)*);)*) => {
        $(
            extern "C-unwind" fn $name<const ID: usize, const PROFILING: bool>(
                $($argument: usize),*
            ) -> c_int {
                let reals = if PROFILING { &PMPI } else { &MPI };
                let real = reals[ID].get();
                // SAFETY: ours is only reached in the real function's place, so its address is known; it
                // takes so many registers and words of the stack.
                let real = unsafe {
                    type Real = extern "C-unwind" fn($(takes!(@word $argument)),*) -> c_int;
                    transmute::<*mut c_void, Real>(real)
                };
                let _inside = enter(ID);
                real($($argument),*)
            }
        )*
    };
    (@word $argument:ident) => { usize };
}

takes! {
    zero ();
    one (a);
    two (a b);
    three (a b c);
    four (a b c d);
    five (a b c d e);
    six (a b c d e f);
    seven (a b c d e f g);
    eight (a b c d e f g h);
    nine (a b c d e f g h i);
    ten (a b c d e f g h i j);
    twelve (a b c d e f g h i j k l);
    thirteen (a b c d e f g h i j k l m);
}

const fn c_string(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name has no NUL"),
    }
}

/// The table: each function without `MPI_`, and how many arguments it takes.
macro_rules! functions {
    ($($name:ident $takes:ident;)*) => {
        #[allow(non_camel_case_types)]
        enum Id { $($name),* }

        /// How many there are.
        pub const COUNT: usize = [$(stringify!($name)),*].len();
        /// By number.
        pub const NAMES: [&str; COUNT] = [$(concat!("MPI_", stringify!($name))),*];

        static MPI: [interpose::Real; COUNT] = [const { interpose::Real::unknown() }; COUNT];
        static PMPI: [interpose::Real; COUNT] = [const { interpose::Real::unknown() }; COUNT];

        /// As programs call them.
        pub static FUNCTIONS: [Replacement; COUNT] = [$(
            Replacement {
                name: c_string(concat!("MPI_", stringify!($name), "\0")),
                ours: $takes::<{ Id::$name as usize }, false> as *const c_void,
                for_nccl: $takes::<{ Id::$name as usize }, false> as *const c_void,
                late: $takes::<{ Id::$name as usize }, false> as *const c_void,
                real: &MPI[Id::$name as usize],
            },
        )*];
        /// As libraries for Fortran, and tools before MPI, call them.
        pub static PROFILED: [Replacement; COUNT] = [$(
            Replacement {
                name: c_string(concat!("PMPI_", stringify!($name), "\0")),
                ours: $takes::<{ Id::$name as usize }, true> as *const c_void,
                for_nccl: $takes::<{ Id::$name as usize }, true> as *const c_void,
                late: $takes::<{ Id::$name as usize }, true> as *const c_void,
                real: &PMPI[Id::$name as usize],
            },
        )*];
    };
}

functions! {
    Send six; Send_c six; Bsend six; Bsend_c six; Ssend six; Ssend_c six; Rsend six; Rsend_c six;
    Recv seven; Recv_c seven; Mrecv five; Mrecv_c five; Sendrecv twelve; Sendrecv_c twelve;
    Sendrecv_replace nine; Sendrecv_replace_c nine;
    Isend seven; Isend_c seven; Ibsend seven; Ibsend_c seven; Issend seven; Issend_c seven;
    Irsend seven; Irsend_c seven; Irecv seven; Irecv_c seven; Imrecv five; Imrecv_c five;
    Isendrecv twelve; Isendrecv_c twelve; Isendrecv_replace nine; Isendrecv_replace_c nine;
    Probe four; Iprobe five; Mprobe five; Improbe six; Start one; Startall two;
    Wait two; Waitany four; Waitall three; Waitsome five; Test three; Testany five; Testall four;
    Testsome five; Request_get_status three;
    Barrier one; Bcast five; Bcast_c five; Gather eight; Gather_c eight; Gatherv nine; Gatherv_c nine;
    Scatter eight; Scatter_c eight; Scatterv nine; Scatterv_c nine; Allgather seven; Allgather_c seven;
    Allgatherv eight; Allgatherv_c eight; Alltoall seven; Alltoall_c seven;
    Alltoallv nine; Alltoallv_c nine; Alltoallw nine; Alltoallw_c nine; Allreduce six; Allreduce_c six;
    Reduce seven; Reduce_c seven; Reduce_scatter six; Reduce_scatter_c six; Reduce_scatter_block six;
    Reduce_scatter_block_c six; Scan six; Scan_c six; Exscan six; Exscan_c six;
    Ibarrier two; Ibcast six; Ibcast_c six; Igather nine; Igather_c nine; Igatherv ten; Igatherv_c ten;
    Iscatter nine; Iscatter_c nine; Iscatterv ten; Iscatterv_c ten; Iallgather eight;
    Iallgather_c eight; Iallgatherv nine; Iallgatherv_c nine;
    Ialltoall eight; Ialltoall_c eight; Ialltoallv ten; Ialltoallv_c ten; Ialltoallw ten;
    Ialltoallw_c ten; Iallreduce seven; Iallreduce_c seven; Ireduce eight; Ireduce_c eight;
    Ireduce_scatter seven; Ireduce_scatter_c seven;
    Ireduce_scatter_block seven; Ireduce_scatter_block_c seven; Iscan seven; Iscan_c seven;
    Iexscan seven; Iexscan_c seven;
    Neighbor_allgather seven; Neighbor_allgather_c seven; Neighbor_allgatherv eight;
    Neighbor_allgatherv_c eight; Neighbor_alltoall seven; Neighbor_alltoall_c seven;
    Neighbor_alltoallv nine; Neighbor_alltoallv_c nine; Neighbor_alltoallw nine;
    Neighbor_alltoallw_c nine;
    Ineighbor_allgather eight; Ineighbor_allgather_c eight; Ineighbor_allgatherv nine;
    Ineighbor_allgatherv_c nine; Ineighbor_alltoall eight; Ineighbor_alltoall_c eight;
    Ineighbor_alltoallv ten; Ineighbor_alltoallv_c ten; Ineighbor_alltoallw ten;
    Ineighbor_alltoallw_c ten;
    Put eight; Put_c eight; Get eight; Get_c eight; Accumulate nine; Accumulate_c nine;
    Get_accumulate twelve; Get_accumulate_c twelve; Fetch_and_op seven; Compare_and_swap seven;
    Rput nine; Rput_c nine; Rget nine; Rget_c nine; Raccumulate ten; Raccumulate_c ten;
    Rget_accumulate thirteen; Rget_accumulate_c thirteen;
    Win_create six; Win_create_c six; Win_allocate six; Win_allocate_c six; Win_allocate_shared six;
    Win_allocate_shared_c six; Win_create_dynamic three; Win_free one; Win_fence two; Win_start three;
    Win_complete one; Win_post three; Win_wait one; Win_test two; Win_lock four; Win_lock_all two;
    Win_unlock two; Win_unlock_all one;
    Win_flush two; Win_flush_all one; Win_flush_local two; Win_flush_local_all one; Win_sync one;
    File_open five; File_close one; File_delete two; File_set_size two; File_preallocate two;
    File_sync one; File_set_view six;
    File_read_at six; File_read_at_c six; File_read_at_all six; File_read_at_all_c six;
    File_write_at six; File_write_at_c six; File_write_at_all six; File_write_at_all_c six;
    File_iread_at six; File_iread_at_c six; File_iwrite_at six; File_iwrite_at_c six;
    File_iread_at_all six; File_iread_at_all_c six; File_iwrite_at_all six; File_iwrite_at_all_c six;
    File_read five; File_read_c five; File_read_all five; File_read_all_c five; File_write five;
    File_write_c five; File_write_all five; File_write_all_c five;
    File_iread five; File_iread_c five; File_iread_all five; File_iread_all_c five; File_iwrite five;
    File_iwrite_c five; File_iwrite_all five; File_iwrite_all_c five;
    File_read_shared five; File_read_shared_c five; File_write_shared five; File_write_shared_c five;
    File_read_ordered five; File_read_ordered_c five; File_write_ordered five;
    File_write_ordered_c five;
    File_iread_shared five; File_iread_shared_c five; File_iwrite_shared five;
    File_iwrite_shared_c five;
    File_read_at_all_begin five; File_read_at_all_begin_c five; File_read_at_all_end three;
    File_write_at_all_begin five; File_write_at_all_begin_c five; File_write_at_all_end three;
    File_read_all_begin four; File_read_all_begin_c four; File_read_all_end three;
    File_write_all_begin four; File_write_all_begin_c four; File_write_all_end three;
    File_read_ordered_begin four; File_read_ordered_begin_c four; File_read_ordered_end three;
    File_write_ordered_begin four; File_write_ordered_begin_c four; File_write_ordered_end three;
    Comm_dup two; Comm_dup_with_info three; Comm_idup three; Comm_create three; Comm_create_group four;
    Comm_split four; Comm_split_type five;
    Comm_free one; Comm_disconnect one; Comm_accept five; Comm_connect five; Comm_spawn eight;
    Comm_spawn_multiple nine;
    Intercomm_create six; Intercomm_merge three; Cart_create six; Dist_graph_create nine;
    Dist_graph_create_adjacent ten;
    Init two; Init_thread four; Finalize zero;
}
