//! The metrics as a message to a collector of OpenTelemetry.
//!
//! Names are those of the table, after `cachewise.` and without the unit, which stands beside them in UCUM: what
//! turns them into Prometheus' names again gets those of `/metrics`.

use cachewise_model::Kind;
use cachewise_view::MetricNumber;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
    metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::scrape::exposition;
use crate::gather::Asking;
use crate::source::Machine;
use crate::survey::Survey;

/// Takes an interval and returns all metrics as an encoded OTLP message.
pub(crate) async fn message(
    asking: &Asking,
    survey: &Survey,
    machine: &Machine,
) -> Result<Vec<u8>, String> {
    let exposition = exposition(asking, survey).await?;
    // A start that cannot be read is unknown, which is 0 here.
    let started = machine.started.parse().map_or(0, nanoseconds);
    let now = nanoseconds(jiff::Timestamp::now());
    let metrics = exposition.into_metrics().into_iter();
    let metrics = metrics.map(|family| metric(family, started, now)).collect();
    let attributes = [
        ("service.name", "cachewise"),
        ("service.version", machine.version),
        ("host.name", &machine.source.hostname),
    ];
    let request = ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(Resource {
                attributes: attributes
                    .map(|(key, value)| attribute(key, value.to_owned()))
                    .into(),
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "cachewise".into(),
                    version: machine.version.into(),
                    ..InstrumentationScope::default()
                }),
                metrics,
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    };
    Ok(request.encode_to_vec())
}

fn nanoseconds(time: jiff::Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

fn attribute(key: &str, value: String) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value)),
        }),
        ..KeyValue::default()
    }
}

fn metric(family: cachewise_view::Metric, started: u64, now: u64) -> Metric {
    let is_counter = family.kind == Kind::Counter;
    let points = family.series.into_iter().map(|(labels, number)| {
        let labels = labels.into_iter();
        NumberDataPoint {
            attributes: labels.map(|(name, value)| attribute(name, value)).collect(),
            start_time_unix_nano: if is_counter { started } else { 0 },
            time_unix_nano: now,
            value: Some(match number {
                MetricNumber::Whole(number) => match i64::try_from(number) {
                    Ok(number) => number_data_point::Value::AsInt(number),
                    Err(_) => number_data_point::Value::AsDouble(number as f64),
                },
                MetricNumber::Fraction(number) => number_data_point::Value::AsDouble(number),
            }),
            ..NumberDataPoint::default()
        }
    });
    let data_points = points.collect();
    let data = match is_counter {
        true => metric::Data::Sum(Sum {
            data_points,
            aggregation_temporality: AggregationTemporality::Cumulative.into(),
            is_monotonic: true,
        }),
        false => metric::Data::Gauge(Gauge { data_points }),
    };
    Metric {
        name: format!("cachewise.{}", family.name),
        description: family.help,
        unit: match family.unit {
            Some("bytes") => "By",
            Some("seconds") => "s",
            Some("ratio") => "1",
            _ => "",
        }
        .to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}
