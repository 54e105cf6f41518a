//! The browser's trace of its main thread, summed up.

use std::collections::HashMap;
use std::ops::Div;

use serde_json::{Value, json};

use super::Outcome;
use super::chromium::Chromium;

const CATEGORIES: [&str; 2] = ["devtools.timeline", "disabled-by-default-devtools.timeline"];
const SCRIPT: [&str; 9] = [
    "EvaluateScript",
    "FunctionCall",
    "EventDispatch",
    "TimerFire",
    "FireAnimationFrame",
    "RunMicrotasks",
    "MinorGC",
    "MajorGC",
    "v8.compile",
];
const LAYOUT: [&str; 2] = ["UpdateLayoutTree", "Layout"];
const PAINT: [&str; 6] = [
    "PrePaint",
    "Paint",
    "PaintImage",
    "Layerize",
    "UpdateLayer",
    "Commit",
];

/// CPU time in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub script: f64,
    pub layout: f64,
    pub paint: f64,
    /// Tasks of other kinds.
    pub other: f64,
}

impl Cost {
    pub fn all(&self) -> f64 {
        self.script + self.layout + self.paint + self.other
    }

    fn part(&mut self, kind: Kind) -> &mut f64 {
        match kind {
            Kind::Script => &mut self.script,
            Kind::Layout => &mut self.layout,
            Kind::Paint => &mut self.paint,
            Kind::Other => &mut self.other,
        }
    }
}

impl Div<f64> for Cost {
    type Output = Cost;

    fn div(self, by: f64) -> Cost {
        Cost {
            script: self.script / by,
            layout: self.layout / by,
            paint: self.paint / by,
            other: self.other / by,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Script,
    Layout,
    Paint,
    Other,
}

/// A trace that runs.
pub struct Trace;

/// An event with a begin, an end and its CPU time, in microseconds.
struct Span {
    thread: (u64, u64),
    name: String,
    begin: f64,
    end: f64,
    cpu: f64,
}

impl Trace {
    pub fn start(browser: &mut Chromium) -> Trace {
        let config = json!({ "includedCategories": CATEGORIES });
        let parameters = json!({ "transferMode": "ReportEvents", "traceConfig": config });
        browser.call("Tracing.start", parameters);
        Trace
    }

    /// Ends it, and sums up the main thread of the page.
    ///
    /// # Errors
    /// If the trace has none.
    pub fn end(self, browser: &mut Chromium) -> Outcome<Cost> {
        browser.call("Tracing.end", json!({}));
        super::support::until("the trace is complete", || {
            browser.value("1");
            let is_end = |event: &Value| event["method"] == "Tracing.tracingComplete";
            browser.events.iter().any(is_end).then_some(())
        });
        let events: Vec<Value> = browser
            .events
            .drain(..)
            .filter(|event| event["method"] == "Tracing.dataCollected")
            .flat_map(|event| {
                event["params"]["value"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            })
            .collect();
        let main: Vec<(u64, u64)> = events
            .iter()
            .filter(|event| {
                event["name"] == "thread_name" && event["args"]["name"] == "CrRendererMain"
            })
            .map(thread)
            .collect();
        let spans = events.iter().filter_map(span);
        let spans: Vec<Span> = spans.filter(|span| main.contains(&span.thread)).collect();
        // There are several renderers; the busiest one draws the page.
        let mut tasks: HashMap<(u64, u64), f64> = HashMap::new();
        for span in &spans {
            *tasks.entry(span.thread).or_default() += span.cpu;
        }
        let page = tasks.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let (page, _) = page.ok_or("the trace has no main thread")?;
        let of_page = spans.into_iter().filter(|span| span.thread == *page);
        Ok(summed(of_page.collect()))
    }
}

fn thread(event: &Value) -> (u64, u64) {
    let number = |name: &str| event[name].as_u64().unwrap_or(0);
    (number("pid"), number("tid"))
}

fn span(event: &Value) -> Option<Span> {
    let begin = (event["ph"] == "X").then(|| event["ts"].as_f64())??;
    Some(Span {
        thread: thread(event),
        name: event["name"].as_str()?.to_owned(),
        begin,
        end: begin + event["dur"].as_f64()?,
        cpu: event["tdur"].as_f64().unwrap_or(0.0),
    })
}

/// The time of each kind: that of a span without the spans within it.
fn summed(mut spans: Vec<Span>) -> Cost {
    spans.sort_by(|a, b| a.begin.total_cmp(&b.begin).then(b.end.total_cmp(&a.end)));
    let mut cost = Cost::default();
    let mut around: Vec<(f64, Kind)> = Vec::new();
    for span in spans {
        while around.pop_if(|(end, _)| *end <= span.begin).is_some() {}
        let outer = around.last().map(|(_, kind)| *kind);
        let name = span.name.as_str();
        let kind = match () {
            () if SCRIPT.contains(&name) || name.starts_with("V8.GC") => Kind::Script,
            () if LAYOUT.contains(&name) => Kind::Layout,
            () if PAINT.contains(&name) => Kind::Paint,
            () => outer.unwrap_or(Kind::Other),
        };
        let milliseconds = span.cpu / 1e3;
        *cost.part(kind) += milliseconds;
        if let Some(outer) = outer {
            *cost.part(outer) -= milliseconds;
        }
        around.push((span.end, kind));
    }
    cost
}
