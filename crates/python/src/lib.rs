//! `ncclscope._native`: what the Python package needs from Rust, and nothing that Python can say as well
//! itself.
//!
//! [`open`] makes a [`Capture`], which hands out its tables as [`Table`]s and a [`Report`] as JSON and text;
//! the objects that users see are made of that in `python/ncclscope`. A table is a stream of record batches
//! over the Arrow PyCapsule interface, each made when the reader asks for it.
//!
//! Rule: the interpreter is free for other threads while a capture is read, and while a report or a batch is
//! made.

use analyze::clocks::Given;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use render::batches::{self, Calls};
use render::text::Options;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tables::calls::{Column, COLUMNS};

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{open, Capture, Report, Table};

    /// The version of this module, which is the package's.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// The JSON Schema of reports.
    #[pymodule_export]
    const REPORT_SCHEMA: &str = render::json::SCHEMA;
}

/// Opens the capture at `path`: a capture folder, the folder of a host, or one trace file.
///
/// Raises `ncclscope.CaptureError` when there is nothing to read; never for damage.
#[pyfunction]
fn open(py: Python<'_>, path: PathBuf) -> PyResult<Capture> {
    match py.detach(|| tables::Capture::open(&path)) {
        Ok(capture) => Ok(Capture {
            inner: Arc::new(Inner {
                capture,
                report: OnceLock::new(),
            }),
        }),
        Err(error) => Err(unreadable(py, error.to_string(), error.hint())?),
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
}

impl Inner {
    fn report(&self) -> &Arc<analyze::Report> {
        self.report
            .get_or_init(|| Arc::new(analyze::report(&self.capture)))
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
            source: Source::Calls(self.inner.clone(), Calls::new(COLUMNS.iter().collect())),
            rows: processes.iter().map(|p| p.calls.len()).sum(),
        }
    }

    /// The table of operations.
    fn operations(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::operations(self.inner.report())))
    }

    /// The table of CUDA graphs.
    fn graphs(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::graphs(self.inner.report())))
    }

    /// The launches of CUDA graphs.
    fn graph_launches(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::graph_launches(&self.inner.capture)))
    }

    /// The table of kernels, copies and fills in kernel windows.
    fn kernels(&self, py: Python<'_>) -> PyResult<Table> {
        batch(py.detach(|| batches::kernels(&self.inner.capture)))
    }

    /// Why the table of kernels is empty; `None` if it has rows.
    fn no_kernels_because(&self) -> Option<String> {
        analyze::streams::kernels::why_none(&self.inner.capture)
    }

    /// The report. `offsets` is what `ncclscope report --offsets` takes; raises `ncclscope.CaptureError`
    /// where it names none.
    fn report(&self, py: Python<'_>, offsets: Option<PathBuf>) -> PyResult<Report> {
        let Some(offsets) = offsets else {
            let report = py.detach(|| self.inner.report().clone());
            return Ok(Report(report));
        };
        let given = match Given::read(&offsets) {
            Ok(given) => Some(given),
            Err(error) => return Err(unreadable(py, error.to_string(), error.hint())?),
        };
        let report = py.detach(|| analyze::report_with(&self.inner.capture, given));
        Ok(Report(Arc::new(report)))
    }
}

/// A report on a capture.
#[pyclass(frozen, module = "ncclscope._native")]
struct Report(Arc<analyze::Report>);

#[pymethods]
impl Report {
    /// As `ncclscope report --json` prints it.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        printed(py, |out| render::json::write(&self.0, out))
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
            render::text::write(&self.0, options, out)
        })
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

#[derive(Clone)]
enum Source {
    /// Made batch by batch.
    Calls(Arc<Inner>, Calls),
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
                Source::Calls(inner.clone(), Calls::new(columns))
            }
            Source::Batch(batch) => Source::Batch(batch.project(&indices).map_err(arrow)?),
        };
        Ok(Table {
            source,
            rows: self.rows,
        })
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
                let batches = (0..self.rows)
                    .step_by(batches::ROWS)
                    .map(move |first| calls.range(&inner.capture, first, batches::ROWS));
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
