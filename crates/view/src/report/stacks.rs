//! Code that waited for storage or evicted pages: the functions that weigh most, and all stacks as JSON.

use std::cmp::Reverse;

use cachewise_model::{
    CodePlace, Frame, Interval, Reason, Stack, StackKind, Stacks, Weight, escaped,
};
use serde_json::{Value as Json, json};

use super::options::ReportOptions;
use crate::number::{grouped, share};
use crate::sheet::{Sheet, SheetCell, SheetColumn};

const COLUMNS: [SheetColumn; 7] = [
    SheetColumn::new("event", "EVENT", false, "The event"),
    SheetColumn::new("waited_seconds", "WAITED", true, "Time that tasks waited"),
    SheetColumn::new("pages", "PAGES", true, "Pages that missed or were evicted"),
    SheetColumn::new("bytes", "BYTES", true, "Bytes that direct I/O moved"),
    SheetColumn::new(
        "share_ratio",
        "SHARE",
        true,
        "Share of the event's time, or of its bytes or pages",
    ),
    SheetColumn::new(
        "function",
        "FUNCTION",
        false,
        "The program's innermost function",
    ),
    SheetColumn::new(
        "place",
        "CODE",
        false,
        "File and line of the call, or the program or library",
    ),
];

const TITLE: &str = "code that waits for storage or evicts";

/// The functions of an interval that weigh most.
#[derive(Debug, Clone, PartialEq)]
pub struct StackTable {
    /// The title.
    pub title: &'static str,
    /// A row for each function, by event.
    pub sheet: Sheet,
    /// Number of lighter functions, without a row.
    pub omitted: usize,
    /// How to learn the names of functions that the rows do not have.
    pub hints: Vec<&'static str>,
}

impl StackTable {
    /// The `top` functions of each event; `None` if stacks were not requested.
    #[must_use]
    pub fn of(interval: &Interval, top: usize) -> Option<StackTable> {
        let stacks = interval.stacks.as_ref()?;
        let places = stacks.places(interval.page().get());
        let mut table = StackTable {
            title: TITLE,
            sheet: Sheet::new(&COLUMNS),
            omitted: 0,
            hints: Vec::new(),
        };
        for kind in StackKind::ALL {
            let total = stacks.total(kind);
            let of_kind = places.iter().filter(|place| place.kind == kind);
            for place in of_kind.clone().take(top) {
                table.sheet.rows.push(row(place, &total));
                let hint = interpreter_hint(&place.frame);
                let hint = hint.filter(|hint| !table.hints.contains(hint));
                table.hints.extend(hint);
            }
            table.omitted += of_kind.skip(top).count();
        }
        Some(table)
    }
}

/// How to run a script so that its functions have names.
fn interpreter_hint(frame: &Frame) -> Option<&'static str> {
    if frame.unknown != Some(Reason::Interpreter) {
        return None;
    }
    let function = frame.function.as_deref().unwrap_or_default();
    Some(match function {
        name if name.starts_with("_Py") => {
            "Python 3.12 and later names the functions of scripts: set PYTHONPERFSUPPORT=1"
        }
        name if name.starts_with("Builtins_") => {
            "Node.js names functions: node --perf-basic-prof --interpreted-frames-native-stack"
        }
        _ => {
            "Java methods have names once they are compiled: -Xcomp compiles them at their first call"
        }
    })
}

/// The table of functions; empty if stacks were not requested.
pub(crate) fn text(interval: &Interval, options: ReportOptions<'_>) -> String {
    let Some(table) = StackTable::of(interval, options.top) else {
        return String::new();
    };
    let heading = options.style.bold(table.title);
    if table.sheet.rows.is_empty() && table.omitted == 0 {
        return format!(
            "{heading}\n    no read or fault missed, nothing waited and nothing was evicted\n"
        );
    }
    let mut text = format!("{heading}\n{}", table.sheet.table(options.style));
    if table.omitted > 0 {
        let more = grouped(table.omitted as u64);
        text += &format!("    {more} more: --top N shows more\n");
    }
    for hint in table.hints {
        text += &format!("    {hint}\n");
    }
    text
}

fn row(place: &CodePlace, total: &Weight) -> Vec<SheetCell> {
    let weight = &place.weight;
    // An amount that an event does not have is no 0.
    let unless_none = |cell: SheetCell| match cell.is_something() {
        true => cell,
        false => SheetCell::with_text(0, ""),
    };
    let seconds = weight.waited.as_secs_f64();
    let part = share_of(weight, total);
    let (function, at) = match place.unknown {
        None => (
            place.frame.function.clone().unwrap_or_default(),
            match place.frame.unknown {
                Some(why @ Reason::Interpreter) => because(&place.frame, why),
                _ => place_text(&place.frame),
            },
        ),
        Some(why) => ("?".to_owned(), because(&place.frame, why)),
    };
    vec![
        SheetCell::text(place.kind.words()),
        match place.kind.waits() && seconds > 0.0 {
            true => SheetCell::seconds(seconds),
            false => SheetCell::with_text(seconds, ""),
        },
        unless_none(SheetCell::count(weight.pages.0)),
        unless_none(SheetCell::bytes(weight.bytes)),
        SheetCell::with_text(part, share(part)),
        SheetCell::text(function),
        SheetCell::text(at),
    ]
}

/// By time; where nothing waited, by bytes or pages.
fn share_of(weight: &Weight, total: &Weight) -> f64 {
    let ratio = |part: f64, whole: f64| (whole > 0.0).then_some(part / whole);
    ratio(weight.waited.as_secs_f64(), total.waited.as_secs_f64())
        .or_else(|| ratio(weight.bytes.0 as f64, total.bytes.0 as f64))
        .or_else(|| ratio(weight.pages.0 as f64, total.pages.0 as f64))
        .unwrap_or(0.0)
}

/// The program or library, and the reason why there is no more.
fn because(frame: &Frame, why: Reason) -> String {
    let module = frame.module.as_ref();
    let module = module.map(|path| escaped(path.as_os_str()).into_owned());
    let open = module.map_or(String::new(), |module| format!("{module}: "));
    format!("{open}{}", why.words())
}

/// `src/load.c:42`; without debug information the program or library.
fn place_text(frame: &Frame) -> String {
    let path = frame.file.as_ref().or(frame.module.as_ref());
    let path = path.map(|path| escaped(path.as_os_str()).into_owned());
    match (path, frame.line) {
        (Some(path), Some(line)) => format!("{path}:{line}"),
        (Some(path), None) => path,
        (None, _) => String::new(),
    }
}

/// Every stack as an object, the heaviest first; null if they were not requested.
pub(crate) fn json(interval: &Interval) -> Json {
    let Some(Stacks { stacks }) = &interval.stacks else {
        return Json::Null;
    };
    let page = interval.page().get();
    let mut stacks: Vec<&Stack> = stacks.iter().collect();
    stacks.sort_by_key(|stack| (stack.kind, Reverse(stack.weight.rank(page))));
    let stacks = stacks.into_iter().map(|stack| {
        let own = stack.own().filter(|frame| frame.function.is_some());
        let own = own.and_then(|own| {
            stack
                .frames
                .iter()
                .position(|frame| std::ptr::eq(frame, own))
        });
        json!({
            "event": stack.kind.id(),
            "command": stack.command,
            "pages": stack.weight.pages.0,
            "bytes": stack.weight.bytes.0,
            "waited_seconds": stack.weight.waited.as_secs_f64(),
            "own_frame": own,
            "unknown_code": stack.cut.map(cachewise_model::Reason::code),
            "frames": stack.frames.iter().map(frame).collect::<Json>(),
        })
    });
    stacks.collect()
}

fn frame(frame: &Frame) -> Json {
    let text = |path: &std::path::PathBuf| escaped(path.as_os_str()).into_owned();
    json!({
        "function": frame.function,
        "file": frame.file.as_ref().map(text),
        "line": frame.line,
        "module": frame.module.as_ref().map(text),
        "kernel": frame.is_kernel,
        "inlined": frame.is_inlined,
        "library": frame.is_library,
        "unknown_code": frame.unknown.map(cachewise_model::Reason::code),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cachewise_units::Pages;

    use super::super::sample;
    use super::*;

    fn stack(function: &str, pages: u64, millis: u64) -> Stack {
        let own = Frame {
            function: Some(function.to_owned()),
            file: Some("src/load.c".into()),
            line: Some(42),
            module: Some("/usr/bin/load".into()),
            ..Frame::default()
        };
        Stack {
            kind: StackKind::Read,
            command: "load".to_owned(),
            frames: vec![own],
            cut: None,
            weight: Weight {
                pages: Pages(pages),
                waited: Duration::from_millis(millis),
                ..Weight::default()
            },
        }
    }

    fn report(stacks: Vec<Stack>) -> Interval {
        let mut interval = sample::cold();
        interval.stacks = Some(Stacks { stacks });
        interval
    }

    #[test]
    fn text_has_functions_by_time_and_says_what_is_unknown() {
        let lost = Stack {
            frames: Vec::new(),
            cut: Some(Reason::StackLost),
            ..stack("", 100, 250)
        };
        let interval = report(vec![
            stack("load\u{1b}", 1000, 700),
            lost,
            stack("other", 2, 50),
        ]);
        let options = ReportOptions {
            top: 2,
            ..ReportOptions::default()
        };
        assert_eq!(
            text(&interval, options),
            "code that waits for storage or evicts\n\
             EVENT          WAITED  PAGES  BYTES   SHARE  FUNCTION  CODE\n\
             missed reads  0.700 s  1,000         70.0 %  load\\x1b  src/load.c:42\n\
             missed reads  0.250 s    100         25.0 %  ?         the stack was lost\n    \
             1 more: --top N shows more\n"
        );
        assert_eq!(text(&sample::cold(), options), "", "not requested");
    }

    #[test]
    fn text_marks_interpreters_and_names_the_option() {
        let mut python = stack("_PyEval_EvalFrameDefault", 10, 700);
        python.frames[0].unknown = Some(Reason::Interpreter);
        python.frames[0].module = Some("/usr/bin/python3.11".into());
        let text = text(
            &report(vec![python]),
            ReportOptions {
                top: 5,
                ..ReportOptions::default()
            },
        );
        assert!(
            text.contains(
                "_PyEval_EvalFrameDefault  /usr/bin/python3.11: a function of the interpreter: the script's own is unknown"
            ) && text.ends_with("set PYTHONPERFSUPPORT=1\n"),
            "{text}"
        );
    }

    #[test]
    fn json_has_every_stack_with_frames_and_codes() {
        assert_eq!(json(&sample::cold()), Json::Null, "not requested");
        let lost = Stack {
            frames: Vec::new(),
            cut: Some(Reason::StackLost),
            ..stack("", 1, 1)
        };
        let json = json(&report(vec![lost, stack("load", 10, 700)]));
        assert_eq!(json[0]["pages"], 10, "the heaviest is the first");
        assert_eq!(json[0]["event"], "read");
        assert_eq!(json[0]["own_frame"], 0);
        assert_eq!(json[0]["frames"][0]["function"], "load");
        assert_eq!(json[0]["frames"][0]["line"], 42);
        assert_eq!(json[1]["unknown_code"], "stack_lost");
        assert_eq!(json[1]["own_frame"], Json::Null, "no call is known");
    }
}
