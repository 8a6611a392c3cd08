//! What a row is: a [`Record`] for the recorder that seals it; a [`Sealed`] row and its [`Rest`] for a
//! reader.
//!
//! The structs and what copies one into another are made from the list of fields, [`call_fields`].

use crate::fields::{call_fields, Field, GpuTime, Ticks};
use crate::live::{flag, row_state, Row};
use std::sync::atomic::Ordering::Acquire;

macro_rules! records {
    ($(
        #[doc = $doc:literal]
        $(live $live:ident: $live_type:tt)?
        $(shape $shape:ident: $shape_type:tt = $shape_column:literal $(<< $bits:literal)?)?
        $(sealed $sealed:ident: $sealed_type:tt = $sealed_column:literal $sealed_coding:ident)?
        $(rest $rest:ident: $rest_type:tt = $rest_column:literal $rest_coding:ident)?;
    )*) => {
        /// What many calls have in common. Names are string ids.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Shape {
            $($( #[doc = $doc] pub $shape: $shape_type, )?)*
        }

        /// One rank's part in an operation, as recorded. A time of 0 is not known.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Record {
            /// Unique in the process, in order of announcement.
            pub ticket: u64,
            /// What it has in common with other calls.
            pub shape: Shape,
            $(
                $( #[doc = $doc] pub $sealed: $sealed_type, )?
                $( #[doc = $doc] pub $rest: $rest_type, )?
            )*
        }

        /// A row of a block: a [`Record`] with a number for its shape, and without its [`Rest`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Sealed {
            /// Unique in the process, in order of announcement.
            pub ticket: u64,
            /// Index into [`Shapes::list`](super::Shapes::list).
            pub shape: u32,
            $($( #[doc = $doc] pub $sealed: $sealed_type, )?)*
        }

        /// What few rows have.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Rest {
            $($( #[doc = $doc] pub $rest: $rest_type, )?)*
        }

        impl Record {
            /// The fields of a live row, each read by itself.
            fn of_fields(ticket: u64, row: &Row) -> Record {
                Record {
                    ticket,
                    shape: Shape { $($( $shape: Field::load(&row.$shape), )?)* },
                    $(
                        $( $sealed: Field::load(&row.$sealed), )?
                        $( $rest: Field::load(&row.$rest), )?
                    )*
                }
            }

            /// What [`Decoder::decode`](super::Decoder::decode) hands out for this record if its shape has
            /// this number.
            pub fn parts(&self, shape: u32) -> (Sealed, Rest) {
                let ticket = self.ticket;
                let sealed = Sealed { ticket, shape, $($( $sealed: self.$sealed, )?)* };
                (sealed, Rest { $($( $rest: self.$rest, )?)* })
            }
        }

        /// A row as it was before it was sealed.
        impl From<(&Sealed, &Rest, &Shape)> for Record {
            fn from((row, rest, shape): (&Sealed, &Rest, &Shape)) -> Record {
                Record {
                    ticket: row.ticket,
                    shape: *shape,
                    $(
                        $( $sealed: row.$sealed, )?
                        $( $rest: rest.$rest, )?
                    )*
                }
            }
        }
    };
}
call_fields!(records);

impl Record {
    /// The present content of a row, or `None` if no call lives there.
    pub fn load(row: &Row) -> Option<Record> {
        let word = row.word.load(Acquire);
        if word & 3 != row_state::ALIVE {
            return None;
        }
        // The fields that say that a part of the call has ended are read before all others. Each Acquire
        // meets the Release of the thread that ended the part, so whatever that thread wrote before is
        // seen. A call returns last of all on its thread: its end is read before what it was told to be.
        let t_end = row.t_end.load(Acquire);
        let k_stopped = row.k_stopped.load(Acquire);
        let ops_stopped = row.ops_stopped.load(Acquire);
        let event_start = row.event_start.load(Acquire);
        let parts = row.parts.load(Acquire);
        let mut record = Record::of_fields(row_state::ticket(word), row);
        record.shape.parts = parts;
        (record.t_end, record.k_stopped, record.ops_stopped) = (t_end, k_stopped, ops_stopped);
        record.event_start = event_start;
        Some(record)
    }

    /// Whether the call was a send or a receive.
    pub fn is_p2p(&self) -> bool {
        self.shape.flags & flag::P2P != 0
    }
}
