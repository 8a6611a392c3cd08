//! Families as OpenTelemetry sends them: a request of OTLP, in protobuf.
//!
//! The messages are those of `opentelemetry/proto/collector/metrics/v1/metrics_service.proto` and of the
//! files that it imports, as far as they are used. Python's own types of OpenTelemetry read them in a test
//! (`python/tests/test_metrics.py`).
//!
//! Names stay as Prometheus has them, so that a dashboard works whichever way the metrics came: whoever turns
//! OTLP into metrics of Prometheus adds a unit and `_total` only if the name lacks them.

use super::{Family, Kind, Sample, Value};
use prost::Message;
use tables::sums::BOUNDS_NS;

/// Since when sums are counted (`AGGREGATION_TEMPORALITY_CUMULATIVE`): the start of the job.
const CUMULATIVE: i32 = 2;

/// Whose metrics these are, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Which of all jobs (`service.instance.id`).
    pub instance: String,
    /// Since when calls are counted, ns since 1970.
    pub start_ns: u64,
    /// Now, ns since 1970.
    pub at_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(message, optional, tag = "5")]
    gauge: Option<Gauge>,
    #[prost(message, optional, tag = "7")]
    sum: Option<Sum>,
    #[prost(message, optional, tag = "9")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Point>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Point>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Times>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Point {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    as_double: Option<f64>,
    #[prost(sfixed64, optional, tag = "6")]
    as_int: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Times {
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    explicit_bounds: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_data_points: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// How many points a receiver did not take, and why; nothing if it took all.
///
/// # Errors
/// If these bytes are no response.
pub fn rejected(response: &[u8]) -> Result<Option<(u64, String)>, prost::DecodeError> {
    let partial = Response::decode(response)?.partial_success;
    let rejected = partial.filter(|partial| partial.rejected_data_points > 0);
    Ok(rejected.map(|of| (of.rejected_data_points.unsigned_abs(), of.error_message)))
}

/// The body of a request with all families.
pub fn request(families: &[Family], origin: &Origin) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        ("service.name", "ncclscope"),
        ("service.version", version),
        ("service.instance.id", &origin.instance),
    ];
    let filled = families.iter().filter(|family| !family.samples.is_empty());
    let scope_metrics = ScopeMetrics {
        scope: Some(Scope {
            name: "ncclscope".to_owned(),
            version: version.to_owned(),
        }),
        metrics: filled.map(|family| metric(family, origin)).collect(),
    };
    let resource_metrics = ResourceMetrics {
        resource: Some(Resource {
            attributes: resource.map(|(key, value)| pair(key, value)).to_vec(),
        }),
        scope_metrics: vec![scope_metrics],
    };
    let request = Request {
        resource_metrics: vec![resource_metrics],
    };
    request.encode_to_vec()
}

fn pair(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            string_value: Some(value.to_owned()),
        }),
    }
}

fn attributes(sample: &Sample) -> Vec<KeyValue> {
    let labels = sample.labels.iter();
    labels.map(|(key, value)| pair(key, value)).collect()
}

/// A unit as OpenTelemetry spells it, which is UCUM.
fn unit(unit: &str) -> &str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        "bytes_per_second" => "By/s",
        "ratio" => "1",
        "watts" => "W",
        "hertz" => "Hz",
        other => other,
    }
}

fn metric(family: &Family, origin: &Origin) -> Metric {
    let mut metric = Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit(family.unit).to_owned(),
        ..Metric::default()
    };
    let points = |start_ns| {
        let points = family
            .samples
            .iter()
            .filter_map(|s| point(s, start_ns, origin));
        points.collect()
    };
    match family.kind {
        Kind::Gauge => {
            metric.gauge = Some(Gauge {
                data_points: points(0),
            });
        }
        Kind::Counter => {
            metric.sum = Some(Sum {
                data_points: points(origin.start_ns),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            });
        }
        Kind::Histogram => {
            let times = family.samples.iter().filter_map(|s| times(s, origin));
            metric.histogram = Some(Histogram {
                data_points: times.collect(),
                aggregation_temporality: CUMULATIVE,
            });
        }
    }
    metric
}

fn point(sample: &Sample, start_ns: u64, origin: &Origin) -> Option<Point> {
    let (as_int, as_double) = match sample.value {
        Value::Count(count) => (Some(i64::try_from(count).unwrap_or(i64::MAX)), None),
        Value::Number(number) => (None, Some(number)),
        Value::Times { .. } => return None,
    };
    Some(Point {
        attributes: attributes(sample),
        start_time_unix_nano: start_ns,
        time_unix_nano: origin.at_ns,
        as_double,
        as_int,
    })
}

fn times(sample: &Sample, origin: &Origin) -> Option<Times> {
    let Value::Times {
        buckets,
        count,
        sum_ns,
    } = &sample.value
    else {
        return None;
    };
    Some(Times {
        attributes: attributes(sample),
        start_time_unix_nano: origin.start_ns,
        time_unix_nano: origin.at_ns,
        count: *count,
        sum: Some(*sum_ns as f64 / 1e9),
        bucket_counts: buckets.clone(),
        explicit_bounds: BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_is_known() {
        assert_eq!(rejected(b"").expect("a response"), None);
        let response = Response {
            partial_success: Some(PartialSuccess {
                rejected_data_points: 3,
                error_message: "too old".to_owned(),
            }),
        };
        let found = rejected(&response.encode_to_vec()).expect("a response");
        assert_eq!(found, Some((3, "too old".to_owned())));
        assert!(rejected(b"<html>").is_err());
    }

    #[test]
    fn counts_have_a_start_and_gauges_have_none() {
        let origin = Origin {
            instance: "job".to_owned(),
            start_ns: 5,
            at_ns: 9,
        };
        let mut gauge = Family::new("g_seconds", Kind::Gauge, "seconds", "G.");
        gauge.add(&[("rank", "1")], Value::Number(0.5));
        let mut counter = Family::new("c", Kind::Counter, "", "C.");
        counter.add(&[], Value::Count(7));
        let empty = Family::new("e", Kind::Gauge, "", "E.");
        let bytes = request(&[gauge, counter, empty], &origin);
        let request = Request::decode(&*bytes).expect("a request");
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let points = |metric: &Metric| {
            let gauge = metric.gauge.as_ref().map(|of| of.data_points.clone());
            let sum = metric.sum.as_ref().map(|of| of.data_points.clone());
            gauge.or(sum).expect("points")
        };
        assert_eq!(metrics.len(), 2);
        assert_eq!(metrics[0].unit, "s");
        let first = &points(&metrics[0])[0];
        assert_eq!((first.start_time_unix_nano, first.time_unix_nano), (0, 9));
        assert_eq!((first.as_double, first.as_int), (Some(0.5), None));
        let second = &points(&metrics[1])[0];
        assert_eq!((second.start_time_unix_nano, second.as_int), (5, Some(7)));
    }
}
