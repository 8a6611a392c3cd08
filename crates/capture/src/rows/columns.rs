//! Which columns of a block the fields of a call have, made from [`call_fields`].
//!
//! [`column`] has the number of each field's first column. Plain columns need no other code: [`PLAIN`]
//! takes their values from records, and `read_plain` puts them back. `encode.rs` and `decode.rs` have the
//! code for the others.

use super::{Record, Rest, Sealed, Shape};
use crate::fields::{call_fields, Field, GpuTime, Ticks};

/// A column that holds the values of a field as they are, or those of one element if the field is an array.
#[derive(Clone, Copy)]
pub(super) struct Plain {
    /// Appends the values that records have for this element.
    values: fn(&[Record], usize, &mut Vec<u64>),
    element: usize,
}

impl Plain {
    /// Appends the values that records have.
    pub(super) fn put(self, records: &[Record], to: &mut Vec<u64>) {
        (self.values)(records, self.element, to);
    }
}

macro_rules! columns {
    ($(
        #[doc = $doc:literal]
        $(live $live:ident: $live_type:tt)?
        $(shape $shape:ident: $shape_type:tt = $shape_column:literal $(<< $bits:literal)?)?
        $(sealed $sealed:ident: $sealed_type:tt = $sealed_column:literal $sealed_coding:ident)?
        $(rest $rest:ident: $rest_type:tt = $rest_column:literal $rest_coding:ident)?;
    )*) => {
        /// The number of each field's first column.
        #[allow(non_upper_case_globals, dead_code)]
        pub(super) mod column {
            pub const ticket: usize = 0;
            pub const shape: usize = 1;
            $(
                $( pub const $sealed: usize = $sealed_column; )?
                $( pub const $rest: usize = $rest_column; )?
            )*
        }

        /// Columns of a row.
        pub(super) const COLUMNS: usize = count(&[
            (column::ticket, 1),
            (column::shape, 1),
            $(
                $( ($sealed_column, width::<$sealed_type>()), )?
                $( ($rest_column, width::<$rest_type>()), )?
            )*
        ]);

        /// Columns of what few rows have: the first of each field, and how many it takes.
        pub(super) const REST: &[(usize, usize)] = &[$($( ($rest_column, width::<$rest_type>()), )?)*];

        /// Columns of a shape.
        pub(super) const SHAPE_COLUMNS: usize =
            count(&[$($( ($shape_column, width::<$shape_type>()), )?)*]);

        /// Each column of a row, if it is plain.
        pub(super) const PLAIN: [Option<Plain>; COLUMNS] = {
            let mut columns: [Option<Plain>; COLUMNS] = [None; COLUMNS];
            $(
                $( if_plain!($sealed_coding => {
                    let values = |records: &[Record], i: usize, to: &mut Vec<u64>| {
                        to.extend(records.iter().map(|record| record.$sealed.number(i)));
                    };
                    put_plain(&mut columns, $sealed_column, width::<$sealed_type>(), values);
                }); )?
                $( if_plain!($rest_coding => {
                    let values = |records: &[Record], i: usize, to: &mut Vec<u64>| {
                        to.extend(records.iter().map(|record| record.$rest.number(i)));
                    };
                    put_plain(&mut columns, $rest_column, width::<$rest_type>(), values);
                }); )?
            )*
            columns
        };

        impl Shape {
            /// What stands in its columns.
            pub(super) fn to_columns(self) -> [u64; SHAPE_COLUMNS] {
                let mut columns = [0; SHAPE_COLUMNS];
                $($( columns[$shape_column] |= self.$shape.number(0) $(<< $bits)?; )?)*
                columns
            }

            /// The shape from what stands in its columns.
            pub(super) fn from_columns(column: impl Fn(usize) -> u64) -> Shape {
                Shape {
                    $($( $shape: Field::from_numbers(|_| column($shape_column) $(>> $bits)?), )?)*
                }
            }
        }

        impl Sealed {
            /// Sets the fields with plain columns.
            #[inline]
            pub(super) fn read_plain(&mut self, column: impl Fn(usize) -> u64) {
                $($( if_plain!($sealed_coding => {
                    self.$sealed = Field::from_numbers(|i| column($sealed_column + i));
                }); )?)*
            }
        }

        impl Rest {
            /// Sets the fields with plain columns.
            #[inline]
            pub(super) fn read_plain(&mut self, column: impl Fn(usize) -> u64) {
                $($( if_plain!($rest_coding => {
                    self.$rest = Field::from_numbers(|i| column($rest_column + i));
                }); )?)*
            }
        }
    };
}

/// Keeps code about a field if its column is plain.
macro_rules! if_plain {
    (plain => $code:block) => {
        $code
    };
    (relative => $code:block) => {};
}

call_fields!(columns);

/// How many columns a field of this type takes.
const fn width<T: Field>() -> usize {
    T::COLUMNS
}

/// How many columns fields have, each given by its first column and its width.
const fn count(fields: &[(usize, usize)]) -> usize {
    let (mut taken, mut i) = (0u128, 0);
    while i < fields.len() {
        let (first, width) = fields[i];
        taken |= ((1 << width) - 1) << first;
        i += 1;
    }
    let n = taken.trailing_ones();
    assert!(taken >> n == 0, "a column number is left out");
    // `encode.rs` writes the number of columns as one byte.
    assert!(n < 128, "too many columns");
    n as usize
}

/// Enters a plain field.
const fn put_plain(
    columns: &mut [Option<Plain>],
    first: usize,
    width: usize,
    values: fn(&[Record], usize, &mut Vec<u64>),
) {
    let mut i = 0;
    while i < width {
        assert!(
            columns[first + i].is_none(),
            "two fields have the same column"
        );
        columns[first + i] = Some(Plain { values, element: i });
        i += 1;
    }
}
