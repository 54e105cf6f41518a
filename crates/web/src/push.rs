//! Pushing the metrics to a collector of OpenTelemetry: OTLP over HTTP, without TLS, so to one on this machine
//! or behind a proxy of this machine.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, Uri, header};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::http::site::Site;
use crate::metrics::message;

/// Maximum time for connecting, sending and the answer together.
const LIMIT: Duration = Duration::from_secs(10);

/// A collector's address, `http://HOST:PORT`, with the path of the metrics unless there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpAddress {
    authority: String,
    path: String,
}

/// A collector's address that is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "write http://HOST:PORT: a collector on this machine takes http://127.0.0.1:4318 (TLS is not spoken)"
)]
pub struct NotOtlp;

impl FromStr for OtlpAddress {
    type Err = NotOtlp;

    fn from_str(text: &str) -> Result<Self, NotOtlp> {
        let uri: Uri = text.parse().map_err(|_| NotOtlp)?;
        let authority = uri.authority().ok_or(NotOtlp)?;
        if uri.scheme_str() != Some("http")
            || authority.host().is_empty()
            || authority.as_str().contains('@')
            || uri.query().is_some()
        {
            return Err(NotOtlp);
        }
        let port = authority.port_u16().unwrap_or(4318);
        Ok(OtlpAddress {
            authority: format!("{}:{port}", authority.host()),
            path: match uri.path() {
                "" | "/" => "/v1/metrics".to_owned(),
                path => path.to_owned(),
            },
        })
    }
}

/// The collector, and the function that reports the first failure and the recovery.
#[derive(Debug, Clone)]
pub struct Otlp {
    /// The collector.
    pub address: OtlpAddress,
    /// Prints a line for the operator.
    pub tell: fn(&str),
}

/// Pushes at every interval. A failed push is not repeated: the counters of the next one include
/// it.
pub(crate) async fn push(site: Site, otlp: Otlp) -> Infallible {
    let every = site.options.interval;
    let mut ticks = interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failing = false;
    loop {
        ticks.tick().await;
        let pushed = timeout(LIMIT, once(&site, &otlp.address)).await;
        let failed = pushed
            .unwrap_or_else(|_| Err(format!("it took more than {} s", LIMIT.as_secs())))
            .err();
        let to = &otlp.address.authority;
        match &failed {
            Some(why) if !failing => {
                (otlp.tell)(&format!("note: cannot push metrics to {to}: {why}"));
            }
            None if failing => (otlp.tell)(&format!("note: metrics are pushed to {to} again")),
            _ => {}
        }
        failing = failed.is_some();
    }
}

async fn once(site: &Site, to: &OtlpAddress) -> Result<(), String> {
    let message = message(&site.asking, &site.survey, &site.machine).await?;
    let said = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(&to.authority)
        .await
        .map_err(|error| said(&error))?;
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(|error| said(&error))?;
    let request = Request::post(&to.path)
        .header(header::HOST, &to.authority)
        .header(header::CONTENT_TYPE, "application/x-protobuf")
        .body(Body::from(message))
        .map_err(|error| said(&error))?;
    let answer = async {
        let answer = sender.send_request(request).await;
        let status = answer.map_err(|error| said(&error))?.status();
        match status {
            StatusCode::NOT_FOUND => Err(format!(
                "it answers {status}: is {} its path for metrics?",
                to.path
            )),
            status if status.is_success() => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    };
    // The connection works as long as it is looked at.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(said(&error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;

    use cachewise_model::{Count, Counter, Interval, Measured};
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
    use prost::Message;

    use super::*;
    use crate::gather::Gatherer;
    use crate::metrics::{Collector, Format, scrape};
    use crate::sample;
    use crate::{CacheTree, Cost, Endpoint, FileSet, Server, Survey, Surveying, Watching};

    /// Each interval requests 7 pages.
    struct Watch;

    impl Watching for Watch {
        fn interval(&mut self) -> Result<Interval, String> {
            let mut interval = sample::tick(10, Vec::new());
            interval.ledger.set(Counter::ReadRequestedPages, 7);
            interval.device_read_bytes = Count::Exact(1);
            Ok(interval)
        }

        fn cost(&self) -> Cost {
            Cost {
                cpu: Duration::from_millis(250),
                memory_bytes: Count::Exact(8192),
                kernel_memory_bytes: Count::Exact(4096),
                kernel_seconds: Measured::Exact(0.5),
            }
        }
    }

    struct Nothing;

    impl Surveying for Nothing {
        fn cache(&mut self) -> Result<CacheTree, String> {
            Err("there is none".into())
        }

        fn file_sets(&mut self) -> Result<Vec<FileSet>, String> {
            Ok(Vec::new())
        }
    }

    /// Answers one request: its head, and its body.
    fn receive(listener: &TcpListener, status: &str) -> (String, Vec<u8>) {
        let (stream, _) = listener.accept().expect("somebody pushes");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = reader.read_line(&mut head).expect("it can be read");
            assert_ne!(read, 0, "the head has an end: {head}");
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().ok())?
        });
        let mut body = vec![0; length.expect("it says how long it is")];
        reader.read_exact(&mut body).expect("it is that long");
        write!(
            reader.get_mut(),
            "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"
        )
        .expect("it is read");
        (head, body)
    }

    fn whole(metric: &Metric) -> Option<i64> {
        let points = match metric.data.as_ref()? {
            metric::Data::Sum(sum) => &sum.data_points,
            metric::Data::Gauge(gauge) => &gauge.data_points,
            _ => return None,
        };
        match points.first()?.value? {
            number_data_point::Value::AsInt(number) => Some(number),
            number_data_point::Value::AsDouble(_) => None,
        }
    }

    #[test]
    fn a_collector_gets_what_a_scrape_has() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it has one");
        let mut options = sample::options();
        options.interval = Duration::from_millis(10);
        options.collectors = vec![Collector::PageCache];
        let otlp = Otlp {
            address: format!("http://{address}").parse().expect("an address"),
            tell: |_| {},
        };
        let (machine, options) = (Arc::new(sample::machine()), Arc::new(options));
        let (gatherer, asking) = Gatherer::new(machine.clone(), options.clone());
        let survey = Survey::start(|| Nothing).expect("there can be a thread");
        let bind = Endpoint::Tcp("127.0.0.1:0".parse().expect("an address"));
        let server = Server::bind(&bind, &options.limits).expect("there is a free port");
        let server = server.pushing(otlp);
        let (end, ending) = tokio::sync::watch::channel(false);
        let (its_asking, its_survey) = (asking.clone(), survey.clone());
        let watching = std::thread::spawn(move || gatherer.run(&mut Watch));
        let serving = std::thread::spawn(move || {
            server.run(its_asking, its_survey, machine, options, ending)
        });
        // One that fails does not end it.
        receive(&listener, "503 Service Unavailable");
        let (head, body) = receive(&listener, "200 OK");
        assert!(
            head.starts_with("POST /v1/metrics HTTP/1.1\r\n")
                && head
                    .to_ascii_lowercase()
                    .contains("content-type: application/x-protobuf\r\n"),
            "as the protocol has it: {head}"
        );
        let request = ExportMetricsServiceRequest::decode(&*body).expect("it is a message");
        let resource = request.resource_metrics.first().expect("of one machine");
        let metrics = &resource
            .scope_metrics
            .first()
            .expect("of one program")
            .metrics;
        let of = |name: &str| {
            let found = metrics.iter().find(|metric| metric.name == name);
            found.unwrap_or_else(|| panic!("there is {name}"))
        };
        let asked = of("cachewise.page_cache_requested");
        let pages = whole(asked).expect("pages are whole");
        assert!(pages > 0 && pages % 7 == 0, "all that was counted: {pages}");
        let Some(metric::Data::Sum(sum)) = &asked.data else {
            panic!("a counter is a sum: {asked:?}");
        };
        assert!(sum.is_monotonic, "that only grows");
        assert_eq!(sum.aggregation_temporality, 2, "since the start");
        assert!(sum.data_points[0].start_time_unix_nano > 0, "which it says");
        let size = of("cachewise.page_size");
        assert_eq!(
            (size.unit.as_str(), whole(size)),
            ("By", Some(4096)),
            "units stand beside"
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let text = runtime
            .block_on(scrape(&asking, &survey, Format::OpenMetrics))
            .expect("it can be scraped");
        let families = text
            .lines()
            .filter(|line| line.starts_with("# TYPE "))
            .count();
        assert_eq!(metrics.len(), families, "the same metrics as in a scrape");
        end.send(true).expect("it runs");
        serving.join().expect("it ends").expect("in order");
        drop((asking, survey));
        watching.join().expect("so does the watch");
    }

    #[test]
    fn addresses_of_collectors() {
        let parse = |text: &str| {
            text.parse::<OtlpAddress>()
                .ok()
                .map(|to| (to.authority, to.path))
        };
        let is = |authority: &str, path: &str| Some((authority.to_owned(), path.to_owned()));
        assert_eq!(
            parse("http://127.0.0.1:4318"),
            is("127.0.0.1:4318", "/v1/metrics")
        );
        assert_eq!(parse("http://[::1]:1/"), is("[::1]:1", "/v1/metrics"));
        assert_eq!(
            parse("http://collector/x/v1/metrics"),
            is("collector:4318", "/x/v1/metrics")
        );
        for text in [
            "https://a:4318",
            "127.0.0.1:4318",
            "http://",
            "http://me:pass@a:1",
            "http://a/?x",
            "",
            "\n",
        ] {
            assert_eq!(parse(text), None, "{text} is none");
        }
    }
}
