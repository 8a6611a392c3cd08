//! `ncclscope._native`: what the Python package needs from Rust, and nothing that Python can say as well
//! itself.
//!
//! [`open`] makes a [`Capture`]. It hands out its tables as [`Table`]s, and a [`Report`] as JSON and text.
//! `python/ncclscope` makes of these the objects that users see. A table is a stream of record batches over
//! the Arrow PyCapsule interface, each made when the reader asks for it.
//!
//! Rule: the interpreter is free for other threads while a capture is read, and while a report or a batch is
//! made.

use analyze::clocks::Given;
use analyze::diff::{Criterion, Run};
use analyze::hang::Conditions;
use analyze::operation_ids::OperationIds;
use analyze::spans::Part;
use analyze::time::Nanos;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{
    PyFileExistsError, PyKeyError, PyModuleNotFoundError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict};
use render::batches::{self, CallsTable};
use render::dataset::{self, Key};
use render::events::Events;
use render::events_table;
use render::layout::Look;
use render::picture::{Picture, Theme};
use render::table::{self, Rows, Table as Named};
use render::text::Options;
use render::timeline::Timeline;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tables::calls::{Column, COLUMNS};

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{open, Answer, Capture, Report, Table};

    /// The version of this module, which is the package's.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// Opens the capture at `path`: a capture folder, the folder of a host, or one trace file; or what another
/// tool wrote (`docs/reference/other-tools.md`).
/// Of a job that was started again, the `attempt` with this number, or else the last.
///
/// Of a run, one of these parts: `steps` such as `100..200`, the last `last_s` seconds, or phases.
///
/// Raises `ncclscope.CaptureError` when there is nothing to read, or no such part; never for damage.
#[pyfunction]
#[pyo3(signature = (path, attempt=None, *, steps=None, last_s=None, phase=None))]
fn open(
    py: Python<'_>,
    path: PathBuf,
    attempt: Option<u32>,
    steps: Option<String>,
    last_s: Option<f64>,
    phase: Option<String>,
) -> PyResult<Capture> {
    let part = part(steps, last_s, phase)?;
    let which = attempt.map_or(tables::Which::Last, tables::Which::Number);
    let open = || {
        let progress = tables::ReadProgress::default();
        let (source, _held) = convert::open(&path, &progress, which)?;
        Ok::<_, convert::Error>(source.load(&progress))
    };
    let kept = |mut capture: tables::Capture| match part {
        None => Ok(capture),
        Some(part) => part.keep(&mut capture).map(|()| capture),
    };
    match py.detach(|| open().map(kept)) {
        Ok(Err(no)) => Err(unreadable(py, no.to_string(), &no.hint)?),
        Ok(Ok(capture)) => Ok(Capture {
            inner: Arc::new(Inner {
                capture,
                report: OnceLock::new(),
                ids: OnceLock::new(),
            }),
        }),
        Err(error) => Err(unreadable(py, error.to_string(), &error.hint())?),
    }
}

/// The part of a run that is asked for.
fn part(
    steps: Option<String>,
    last_s: Option<f64>,
    phase: Option<String>,
) -> PyResult<Option<Part>> {
    let wrong = |said: String| PyValueError::new_err(said);
    match (steps, last_s, phase) {
        (None, None, None) => Ok(None),
        (Some(steps), None, None) => match analyze::spans::steps_of(&steps) {
            Ok(steps) => Ok(Some(Part::Steps(steps))),
            Err(said) => Err(wrong(format!("steps={steps:?}: {said}"))),
        },
        (None, Some(last), None) if last > 0.0 => Ok(Some(Part::Last((1e9 * last) as i64))),
        (None, Some(last), None) => {
            Err(wrong(format!("last_s={last}: expected seconds above zero")))
        }
        (None, None, Some(phase)) => Ok(Some(Part::Phase(phase))),
        _ => Err(wrong(
            "expected one of steps, last_s and phase, found several".to_owned(),
        )),
    }
}

/// A `CaptureError`.
fn unreadable(py: Python<'_>, said: String, hint: &str) -> PyResult<PyErr> {
    let class = py.import("ncclscope")?.getattr("CaptureError")?;
    Ok(PyErr::from_value(class.call1((said, hint))?))
}

struct Inner {
    capture: tables::Capture,
    /// Made when it is first asked for.
    report: OnceLock<Arc<analyze::Report>>,
    ids: OnceLock<OperationIds>,
}

impl Inner {
    fn report(&self) -> &Arc<analyze::Report> {
        self.report
            .get_or_init(|| Arc::new(analyze::report(&self.capture)))
    }

    fn ids(&self) -> &OperationIds {
        self.ids.get_or_init(|| OperationIds::of(&self.capture))
    }
}

/// An open capture.
#[pyclass(frozen, module = "ncclscope._native")]
struct Capture {
    inner: Arc<Inner>,
}

#[pymethods]
impl Capture {
    /// What was unsound, in words.
    fn problems(&self) -> Vec<String> {
        let problems = self.inner.capture.problems.iter();
        problems.map(ToString::to_string).collect()
    }

    /// How many processes it holds.
    fn nprocesses(&self) -> usize {
        self.inner.capture.processes.len()
    }

    /// The table of calls.
    fn calls(&self) -> Table {
        let processes = &self.inner.capture.processes;
        Table {
            source: Source::Calls(
                self.inner.clone(),
                CallsTable::new(COLUMNS.iter().collect()),
            ),
            rows: processes.iter().map(|p| p.calls.len()).sum(),
        }
    }

    /// The table of operations.
    fn operations(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::operations(self.inner.report())))
    }

    /// The table of arrivals.
    fn arrivals(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::arrivals(&self.inner.capture)))
    }

    /// The table of steps.
    fn steps(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::steps(self.inner.report())))
    }

    /// The table of ranks.
    fn ranks(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::ranks(self.inner.report())))
    }

    /// The table of findings.
    fn findings(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::findings(self.inner.report())))
    }

    /// How the time of the steps is divided on each rank.
    fn account(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::account(self.inner.report())))
    }

    /// The table of callbacks.
    fn events(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| events_table::events(&self.inner.capture)))
    }

    /// The table of CUDA graphs.
    fn graphs(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::graphs(self.inner.report())))
    }

    /// The launches of CUDA graphs.
    fn graph_launches(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::graph_launches(&self.inner.capture)))
    }

    /// The table of what the node sampler read.
    fn samples(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::samples(&self.inner.capture)))
    }

    /// The table of when threads were off their CPUs.
    fn switches(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::switches(&self.inner.capture)))
    }

    /// The table of when threads were inside of MPI.
    fn mpi(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::mpi(&self.inner.capture)))
    }

    /// The table of kernels, copies and fills in kernel windows.
    fn kernels(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::kernels(&self.inner.capture)))
    }

    /// Why the table of kernels is empty; `None` if it has rows.
    fn no_kernels_because(&self) -> Option<String> {
        render::table::Table::Kernels.why_empty(&self.inner.capture)
    }

    /// The report. `offsets` and `ceilings` are what `ncclscope report --offsets` and `--ceiling` take.
    /// Raises `ncclscope.CaptureError` where there are no offsets, and ValueError for what is no ceiling.
    fn report(
        &self,
        py: Python<'_>,
        offsets: Option<PathBuf>,
        ceilings: Vec<String>,
    ) -> PyResult<Report> {
        let given = match offsets.as_deref().map(Given::read).transpose() {
            Ok(given) => given,
            Err(error) => return Err(unreadable(py, error.to_string(), error.hint())?),
        };
        let report = py.detach(|| {
            if given.is_none() && ceilings.is_empty() {
                return Ok(self.inner.report().clone());
            }
            let ceilings = match &ceilings[..] {
                [] => Vec::new(),
                some => bench::ceiling::read_all(some, &self.inner.report().job.gpu)
                    .map_err(|error| format!("{error:#}"))?,
            };
            let report = analyze::report_against(&self.inner.capture, given, ceilings);
            Ok::<_, String>(Arc::new(report))
        });
        let report = report.map_err(PyValueError::new_err)?;
        Ok(Report {
            report,
            inner: self.inner.clone(),
        })
    }

    /// Whether the job hangs; `after` is from how many seconds on a wait is a hang.
    fn hang(&self, py: Python<'_>, after: Option<f64>) -> PyResult<Answer> {
        if after.is_some_and(|after| !(0.0..=3.2e7).contains(&after)) {
            return Err(PyValueError::new_err(
                "after: expected seconds, 0 to a year",
            ));
        }
        let conditions = Conditions {
            after: after.map(Nanos::from_seconds),
        };
        let hang = py.detach(|| analyze::hang::hang(&self.inner.capture, &conditions));
        Answer::of(py, |all, out| match all {
            None => render::hang::json(&hang, out),
            Some(all) => render::hang::text(&hang, all, Look::default(), out),
        })
    }

    /// Compares this run with another. Raises `ValueError` for a criterion that does not exist.
    fn diff(&self, py: Python<'_>, other: &Capture, fail_on: Vec<String>) -> PyResult<Answer> {
        let criteria: Result<Vec<Criterion>, String> = fail_on.iter().map(|c| c.parse()).collect();
        let criteria =
            criteria.map_err(|said| PyValueError::new_err(format!("fail_on: {said}")))?;
        let diff = py.detach(|| {
            let run = |of: &Capture| Run::of(&of.inner.capture);
            analyze::diff::diff(&run(self), &run(other), &criteria)
        });
        Answer::of(py, |all, out| match all {
            None => render::diff_json::write(&diff, out),
            Some(all) => render::diff_text::write(&diff, all, Look::default(), out),
        })
    }

    /// Writes the capture into `output` in another format; `table` is the table's name, and the columns that
    /// name folders. Returns how many rows or slices there were.
    fn export(
        &self,
        py: Python<'_>,
        to: &str,
        output: PathBuf,
        table: (Option<String>, Vec<String>),
        events: bool,
        force: bool,
    ) -> PyResult<u64> {
        let (table, partition) = table;
        let capture = &self.inner.capture;
        let chosen =
            exportable(capture, to, table.as_deref(), events).map_err(PyValueError::new_err)?;
        let is_file = output.extension().is_some_and(|e| e == "parquet") && !output.is_dir();
        let is_folder = to == "parquet" && !is_file;
        let mut keys = keys(chosen.filter(|_| is_folder), &partition)
            .map_err(|said| PyValueError::new_err(format!("partition: {said}")))?;
        if keys.is_empty() && chosen == Some(Named::Calls) {
            keys.push(Key::Communicator);
        }
        // Files of an earlier export would be read together with the new ones.
        if is_folder && std::fs::read_dir(&output).is_ok_and(|mut entries| entries.next().is_some())
        {
            return Err(PyValueError::new_err(format!(
                "`{}`: expected a new or an empty folder, found one with files in it",
                output.display()
            )));
        }
        if output.is_file() && !force {
            return Err(PyFileExistsError::new_err(format!(
                "`{}` is there already\n  hint: name another file, or replace it with force=True",
                output.display()
            )));
        }
        let written = py.detach(|| {
            if let Some(of) = chosen.filter(|_| is_folder) {
                return dataset::write(&Rows::new(capture), of, &keys, &output);
            }
            let mut out = BufWriter::new(File::create(&output)?);
            let is_plain = output.extension().is_some_and(|e| e == "json");
            let drawn = || {
                let clocks = analyze::clocks_of(capture, None);
                Events::new(capture, clocks.as_ref())
            };
            let rows = match (to, chosen) {
                ("parquet", Some(of)) => table::parquet(&Rows::new(capture), of, &mut out)?,
                ("csv", Some(of)) => table::csv(&Rows::new(capture), of, &mut out)?,
                ("jsonl", Some(of)) => table::jsonl(&Rows::new(capture), of, &mut out)?,
                ("jsonl", None) => render::jsonl::write(capture, &mut out)?,
                ("perfetto", _) if events => {
                    render::perfetto::write_events_gzip(&drawn(), &mut out)?
                }
                ("chrome", _) if events => {
                    if is_plain {
                        render::chrome::write_events(&drawn(), &mut out)?
                    } else {
                        render::chrome::write_events_gzip(&drawn(), &mut out)?
                    }
                }
                ("perfetto", _) => {
                    let report = analyze::report_with(capture, None);
                    let timeline = Timeline::trimmed(capture, report.clocks.as_ref());
                    render::perfetto::write_gzip(&timeline, Some(&report), &mut out)?
                }
                _ => {
                    let report = analyze::report_with(capture, None);
                    let (timeline, of) = (
                        Timeline::new(capture, report.clocks.as_ref()),
                        Some(&report),
                    );
                    if is_plain {
                        render::chrome::write_with(&timeline, of, None, &mut out)?
                    } else {
                        render::chrome::write_gzip_with(&timeline, of, None, &mut out)?
                    }
                }
            };
            out.flush()?;
            std::io::Result::Ok(rows)
        });
        Ok(written?)
    }

    /// What an export of calls leaves out, in sentences.
    fn left_out(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| render::left_out::calls(self.inner.report()))
    }
}

/// The columns that name folders, for a table in a folder. Fails for others, with what is possible.
fn keys(table: Option<Named>, names: &[String]) -> Result<Vec<Key>, String> {
    let known = |name: &String| {
        Key::of_name(name).ok_or_else(|| {
            let known = Key::ALL.map(Key::name).join(", ");
            format!("expected columns of {known}, found `{name}`")
        })
    };
    let keys = names
        .iter()
        .map(known)
        .collect::<Result<Vec<Key>, String>>()?;
    match table {
        Some(table) => dataset::check(table, &keys)?,
        None if !keys.is_empty() => return Err("expected `parquet` and a folder".to_owned()),
        None => {}
    }
    Ok(keys)
}

/// The table to write, if it is one. Fails for what can't be written so, with the way out.
fn exportable(
    capture: &tables::Capture,
    to: &str,
    table: Option<&str>,
    events: bool,
) -> Result<Option<Named>, String> {
    let is_line = ["perfetto", "chrome"].contains(&to);
    if !is_line && !["parquet", "csv", "jsonl"].contains(&to) {
        return Err(format!(
            "to: expected perfetto, chrome, parquet, csv or jsonl, found `{to}`"
        ));
    }
    let named = match table {
        None => None,
        Some(name) => match Named::of_name(name) {
            Some(table) => Some(table),
            None => {
                let names: Vec<&str> = Named::ALL.into_iter().map(Named::name).collect();
                let names = names.join(", ");
                return Err(format!("table: expected one of {names}, found `{name}`"));
            }
        },
    };
    if events && (["parquet", "csv"].contains(&to) || named.is_some()) {
        return Err("events: expected `perfetto`, `chrome` or `jsonl` without a table".to_owned());
    }
    if is_line && named.is_some() {
        return Err(
            "table: expected one with `parquet`, `csv` or `jsonl`, found it with a time line\
             \n  hint: a time line has calls and kernels"
                .to_owned(),
        );
    }
    let chosen = match to {
        "parquet" | "csv" => Some(named.unwrap_or(Named::Calls)),
        _ => named,
    };
    let shown = capture.path.display();
    let has_calls = capture.processes.iter().any(|p| !p.calls.is_empty());
    let needs_callbacks = events || (to == "jsonl" && chosen.is_none());
    if needs_callbacks && !capture.has_mode("callbacks") {
        return Err(format!(
            "`{shown}`: expected a capture with callbacks, found one of calls\n  hint: `ncclscope run --mode \
             callbacks -- COMMAND` records every callback"
        ));
    }
    let needs_calls = chosen == Some(Named::Calls) || (is_line && !events);
    if needs_calls && !has_calls {
        return Err(format!(
            "`{shown}` holds no call\n  hint: `ncclscope doctor {shown}` says why"
        ));
    }
    Ok(chosen)
}

/// What a verb of the command prints.
#[pyclass(frozen, get_all, module = "ncclscope._native")]
struct Answer {
    json: String,
    text: String,
    /// With `--all`.
    all: String,
}

impl Answer {
    /// `write` is given whether JSON is wanted, else whether everything is.
    fn of(
        py: Python<'_>,
        write: impl Sync + Fn(Option<bool>, &mut Vec<u8>) -> std::io::Result<()>,
    ) -> PyResult<Answer> {
        Ok(Answer {
            json: printed(py, |out| write(None, out))?,
            text: printed(py, |out| write(Some(false), out))?,
            all: printed(py, |out| write(Some(true), out))?,
        })
    }
}

/// A report on a capture.
#[pyclass(frozen, module = "ncclscope._native")]
struct Report {
    report: Arc<analyze::Report>,
    /// Of what it is.
    inner: Arc<Inner>,
}

#[pymethods]
impl Report {
    /// As `ncclscope report --json` prints it.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        printed(py, |out| render::report_json::write(&self.report, out))
    }

    /// As `ncclscope report` prints it.
    fn text(&self, py: Python<'_>, all: bool, explain: bool) -> PyResult<String> {
        printed(py, |out| {
            let options = Options {
                all,
                explain,
                kernels: false,
                ..Options::default()
            };
            render::text::write(&self.report, options, out)
        })
    }

    /// The first picture as SVG, as `ncclscope report --svg` writes it.
    fn svg(&self, py: Python<'_>, dark: bool) -> String {
        self.drawn(py, |picture| picture.svg(theme(dark)))
    }

    /// The same as PNG; none if it can't be drawn.
    fn png<'py>(&self, py: Python<'py>, dark: bool) -> Option<Bound<'py, PyBytes>> {
        let bytes = self.drawn(py, |picture| picture.png(theme(dark)))?;
        Some(PyBytes::new(py, &bytes))
    }
}

impl Report {
    /// What is made of the first picture.
    fn drawn<T: Send>(&self, py: Python<'_>, draw: impl Send + FnOnce(&Picture<'_>) -> T) -> T {
        py.detach(|| {
            let clocks = self.report.clocks.as_ref();
            let timeline = Timeline::trimmed(&self.inner.capture, clocks);
            draw(&Picture::of(&self.report, Some(&timeline)))
        })
    }
}

const fn theme(dark: bool) -> Theme {
    if dark {
        Theme::Dark
    } else {
        Theme::Light
    }
}

fn printed(
    py: Python<'_>,
    write: impl Send + FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> PyResult<String> {
    let mut out = Vec::new();
    py.detach(|| write(&mut out))?;
    Ok(String::from_utf8(out)?)
}

/// A table of one batch.
fn batch(made: Result<RecordBatch, ArrowError>) -> PyResult<Table> {
    let batch = made.map_err(arrow)?;
    Ok(Table {
        rows: batch.num_rows(),
        source: Source::Batch(batch),
    })
}

fn arrow(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A library that users bring; an error names what to install.
fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    py.import(name).map_err(|error| {
        if error.is_instance_of::<PyModuleNotFoundError>(py) {
            PyModuleNotFoundError::new_err(format!(
                "this needs {name}, which ncclscope does not bring\n  hint: pip install {name}"
            ))
        } else {
            error
        }
    })
}

#[derive(Clone)]
enum Source {
    /// Made batch by batch.
    Calls(Arc<Inner>, CallsTable),
    /// All of it.
    Batch(RecordBatch),
}

impl Source {
    fn schema(&self) -> SchemaRef {
        match self {
            Source::Calls(_, calls) => calls.schema(),
            Source::Batch(batch) => batch.schema(),
        }
    }
}

/// A table of a capture.
#[pyclass(frozen, module = "ncclscope")]
struct Table {
    source: Source,
    rows: usize,
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.rows
    }

    fn __repr__(&self) -> String {
        let columns = self.source.schema().fields().len();
        format!("<ncclscope.Table: {} rows, {columns} columns>", self.rows)
    }

    /// Names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.source.schema();
        let fields = schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The table with these columns only, in this order. Raises `KeyError` for a name that it does not have.
    fn select(&self, names: Vec<String>) -> PyResult<Table> {
        let schema = self.source.schema();
        let mut indices = Vec::new();
        for name in &names {
            match schema.index_of(name) {
                Ok(index) => indices.push(index),
                Err(_) => {
                    return Err(PyKeyError::new_err(format!(
                        "`{name}` is not a column; there are {}",
                        self.columns().join(", ")
                    )))
                }
            }
        }
        let source = match &self.source {
            Source::Calls(inner, _) => {
                let column = |name: &String| COLUMNS.iter().find(|column| column.name == *name);
                let columns: Vec<&'static Column> = names.iter().filter_map(column).collect();
                Source::Calls(inner.clone(), CallsTable::new(columns))
            }
            Source::Batch(batch) => Source::Batch(batch.project(&indices).map_err(arrow)?),
        };
        Ok(Table {
            source,
            rows: self.rows,
        })
    }

    /// As a `pyarrow.Table`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "pyarrow")?
            .getattr("table")?
            .call1((slf,))
    }

    /// As a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        library(slf.py(), "polars")?
            .getattr("DataFrame")?
            .call1((slf,))
    }

    /// As a `pandas.DataFrame`; whole numbers stay whole where some are null.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (pandas, pyarrow) = (library(py, "pandas")?, library(py, "pyarrow")?);
        let types = PyDict::new(py);
        for (arrow, type_of) in [
            ("int64", "Int64Dtype"),
            ("uint64", "UInt64Dtype"),
            ("bool_", "BooleanDtype"),
        ] {
            types.set_item(
                pyarrow.getattr(arrow)?.call0()?,
                pandas.getattr(type_of)?.call0()?,
            )?;
        }
        let options = PyDict::new(py);
        options.set_item("types_mapper", types.getattr("get")?)?;
        let table = Self::to_arrow(slf)?;
        table.call_method("to_pandas", (), Some(&options))
    }

    /// The Arrow PyCapsule interface's schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.source.schema().as_ref()).map_err(arrow)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The Arrow PyCapsule interface's stream. `requested_schema` is a wish that the interface lets one
    /// ignore: the types are as documented.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.source.schema();
        let reader: Box<dyn RecordBatchReader + Send> = match &self.source {
            Source::Calls(inner, calls) => {
                let (inner, calls) = (inner.clone(), calls.clone());
                let batches = (0..self.rows).step_by(batches::ROWS).map(move |first| {
                    let ids = calls.needs_ids().then(|| inner.ids());
                    calls.range(&inner.capture, ids, first, batches::ROWS)
                });
                Box::new(RecordBatchIterator::new(batches, schema))
            }
            Source::Batch(batch) => {
                let batches = std::iter::once(Ok(batch.clone()));
                Box::new(RecordBatchIterator::new(batches, schema))
            }
        };
        let stream = FFI_ArrowArrayStream::new(reader);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
