//! Tables by columns: what the tables of calls, kernels and arrivals have in common.
//!
//! A table names the type of its rows, and lists its [`Column`]s with the macro
//! [`columns!`](crate::columns!), one a line. Exporters and docs/reference/tables.md follow that list.
//!
//! Rule: a column has its name, kind and unit in one place. What is not known is [`Value::Null`], never 0.

/// A value in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Text(&'a str),
}

/// A column of a table; `F` is a function from a row to the value.
pub struct Column<F> {
    /// Its name, with the unit where it has one.
    pub name: &'static str,
    /// `bool`, `int`, `text`, `time` (ns since 1970), or `uint` for bit patterns that nobody counts with.
    pub kind: &'static str,
    /// The unit, or nothing.
    pub unit: &'static str,
    /// Its value in a row.
    pub value: F,
}

/// Makes the type `Column` of a table with such rows, and `COLUMNS`: name, kind, unit, and a function from a
/// row to the value.
#[macro_export]
macro_rules! columns {
    ($row:ident: $($name:literal $kind:literal $unit:literal $value:expr;)*) => {
        /// A column of the table.
        pub type Column =
            $crate::columns::Column<for<'a> fn(&$row<'a>) -> $crate::columns::Value<'a>>;

        /// The columns of the table, in order.
        pub const COLUMNS: &[Column] = &[
            $(Column { name: $name, kind: $kind, unit: $unit, value: $value },)*
        ];
    };
}

/// A number that may not be known.
pub fn known(value: Option<impl Into<u64>>) -> Value<'static> {
    value.map_or(Value::Null, |value| Value::Unsigned(value.into()))
}

/// A number with 0 for "not known".
pub fn nonzero(value: impl Into<u64>) -> Value<'static> {
    known(Some(value.into()).filter(|value| *value != 0))
}

/// A number that is stored plus 1, with 0 for "not known".
pub fn less_one(value: impl Into<u64>) -> Value<'static> {
    known(value.into().checked_sub(1))
}

/// A moment that may not be known, ns since 1970.
pub fn moment(value: Option<i64>) -> Value<'static> {
    value.map_or(Value::Null, Value::Signed)
}

/// A text that may not be known.
pub fn text(value: Option<&str>) -> Value<'_> {
    value.map_or(Value::Null, Value::Text)
}
