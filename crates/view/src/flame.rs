//! Stacks as folded lines, and as a flame graph.

use std::collections::BTreeMap;
use std::fmt::Write;

use cachewise_model::{Frame, Stack, Stacks};
use cachewise_units::Bytes;

use crate::number::grouped;

/// Weight of a stack: the width of a function in a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlameWeight {
    /// Microseconds that tasks waited.
    Time,
    /// Pages that missed or were evicted.
    Pages,
    /// Bytes of these pages and of direct I/O.
    Bytes,
}

impl FlameWeight {
    fn of(self, stack: &Stack, page_bytes: u64) -> u64 {
        let weight = &stack.weight;
        match self {
            FlameWeight::Time => u64::try_from(weight.waited.as_micros()).unwrap_or(u64::MAX),
            FlameWeight::Pages => weight.pages.0,
            FlameWeight::Bytes => weight.bytes.0 + weight.pages.0 * page_bytes,
        }
    }

    fn text(self, amount: u64) -> String {
        match self {
            FlameWeight::Time => format!("{:.3} s", amount as f64 / 1e6),
            FlameWeight::Pages => format!("{} pages", grouped(amount)),
            FlameWeight::Bytes => Bytes(amount).to_string(),
        }
    }
}

/// The names of a stack from the outermost call on: the event, the command, the user's and the kernel's functions.
fn names(stack: &Stack) -> Vec<String> {
    let name = |frame: &Frame| {
        let module = frame.module.as_deref().and_then(|path| path.file_name());
        let name = match (&frame.function, module) {
            (Some(function), _) => function.clone(),
            (None, Some(module)) => format!("[{}]", module.to_string_lossy()),
            (None, None) => "[unknown]".to_owned(),
        };
        match frame.is_kernel {
            true => format!("{name}_[k]"),
            false => name,
        }
    };
    let mut names = vec![stack.kind.id().to_owned(), stack.command.clone()];
    if let Some(why) = stack.cut {
        names.push(format!("[{}]", why.code()));
    }
    let (kernel, user): (Vec<&Frame>, Vec<&Frame>) =
        stack.frames.iter().partition(|frame| frame.is_kernel);
    names.extend(user.into_iter().rev().map(name));
    names.extend(kernel.into_iter().rev().map(name));
    // A semicolon ends a name in a folded line.
    let safe = |name: String| name.replace(|c: char| c == ';' || c.is_control(), ":");
    names.into_iter().map(safe).collect()
}

/// One line for each stack, `event;command;outer;...;inner WEIGHT`, as other programs for flame graphs read it.
#[must_use]
pub fn folded_stacks(stacks: &Stacks, weight: FlameWeight, page_bytes: u64) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &stacks.stacks {
        let amount = weight.of(stack, page_bytes);
        if amount > 0 {
            *sums.entry(names(stack).join(";")).or_default() += amount;
        }
    }
    sums.iter()
        .fold(String::new(), |mut text, (names, amount)| {
            let _ = writeln!(text, "{names} {amount}");
            text
        })
}

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TITLE: f64 = 28.0;
/// Width of a character at the size of the labels.
const CHARACTER: f64 = 6.6;
/// Narrower calls are not drawn.
const NARROWEST: f64 = 0.2;

/// Calls above each other that are drawn; one row stands for those beyond.
const MOST_CALLS: usize = 48;

/// The names of a stack as they are drawn: a function that calls itself is one call, and deep stacks end in a row with the
/// number of their inner calls.
fn drawn(stack: &Stack) -> Vec<String> {
    let mut names = names(stack);
    names.dedup();
    if names.len() > MOST_CALLS {
        let beyond = names.len() - (MOST_CALLS - 1);
        names.truncate(MOST_CALLS - 1);
        names.push(format!("[{beyond} more calls]"));
    }
    names
}

#[derive(Default)]
struct Node {
    amount: u64,
    inner: BTreeMap<String, Node>,
}

impl Node {
    fn depth(&self) -> usize {
        1 + self.inner.values().map(Node::depth).max().unwrap_or(0)
    }
}

/// The stacks as an SVG without scripts: the outermost call is at the bottom, and a call is as wide as its weight.
#[must_use]
pub fn flame_svg(stacks: &Stacks, weight: FlameWeight, page_bytes: u64) -> String {
    let mut root = Node::default();
    for stack in &stacks.stacks {
        let amount = weight.of(stack, page_bytes);
        if amount == 0 {
            continue;
        }
        root.amount += amount;
        let mut node = &mut root;
        for name in drawn(stack) {
            node = node.inner.entry(name).or_default();
            node.amount += amount;
        }
    }
    let height = TITLE + ROW * root.depth() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"6\" y=\"18\" font-size=\"13\">{}</text>\n",
        match weight {
            FlameWeight::Time => "code that waited for storage, by time",
            FlameWeight::Pages => "code that missed or evicted pages, by pages",
            FlameWeight::Bytes => "code that moved or evicted bytes, by bytes",
        },
    );
    let whole = root.amount;
    draw(&mut svg, "all", &root, (0.0, height - ROW), whole, weight);
    svg += "</svg>\n";
    svg
}

fn draw(
    svg: &mut String,
    name: &str,
    node: &Node,
    at: (f64, f64),
    whole: u64,
    weight: FlameWeight,
) {
    let width = match whole {
        0 => WIDTH,
        _ => WIDTH * (node.amount as f64 / whole as f64),
    };
    if width < NARROWEST {
        return;
    }
    let (x, y) = at;
    let percent = match whole {
        0 => 0.0,
        _ => 100.0 * node.amount as f64 / whole as f64,
    };
    let _ = write!(
        svg,
        "<g><title>{}: {}, {percent:.1} %</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" \
         fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.5\"/>",
        xml(name),
        weight.text(node.amount),
        ROW - 1.0,
        color(name),
    );
    let room = ((width - 6.0) / CHARACTER) as usize;
    if room > 2 {
        let label = match name.chars().count() <= room {
            true => name.to_owned(),
            false => name.chars().take(room - 2).chain("..".chars()).collect(),
        };
        let _ = write!(
            svg,
            "<text x=\"{:.2}\" y=\"{}\">{}</text>",
            x + 3.0,
            y + 12.0,
            xml(&label)
        );
    }
    *svg += "</g>\n";
    let mut left = x;
    for (name, inner) in &node.inner {
        draw(svg, name, inner, (left, y - ROW), whole, weight);
        left += WIDTH * (inner.amount as f64 / whole as f64);
    }
}

/// Kernel, unknown, and three shades of the program, by name.
fn color(name: &str) -> &'static str {
    const PROGRAM: [&str; 3] = ["#f4a259", "#f6b26b", "#f0935b"];
    if name.ends_with("_[k]") {
        return "#9fc5e8";
    }
    if name.starts_with('[') {
        return "#cccccc";
    }
    let sum = name.bytes().fold(0u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    PROGRAM[sum as usize % PROGRAM.len()]
}

/// Text in an XML document. Names are those of other programs.
fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML 1.0 has no place for these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cachewise_model::{Reason, StackKind, Weight};
    use cachewise_units::Pages;

    use super::*;

    fn stacks() -> Stacks {
        let frame = |function: &str, is_kernel| Frame {
            function: Some(function.to_owned()),
            is_kernel,
            ..Frame::default()
        };
        let stack = |frames, cut, pages| Stack {
            kind: StackKind::Read,
            command: "a;b".to_owned(),
            frames,
            cut,
            weight: Weight {
                pages: Pages(pages),
                waited: Duration::from_micros(pages * 10),
                ..Weight::default()
            },
        };
        let frames = || {
            vec![
                frame("filemap_read", true),
                frame("Vec<u8>::read", false),
                frame("main", false),
            ]
        };
        Stacks {
            stacks: vec![
                stack(frames(), None, 3),
                stack(frames(), None, 4),
                stack(Vec::new(), Some(Reason::StackLost), 1),
            ],
        }
    }

    #[test]
    fn folded_stacks_add_up_and_keep_names_apart() {
        assert_eq!(
            folded_stacks(&stacks(), FlameWeight::Pages, 4096),
            "read;a:b;[stack_lost] 1\nread;a:b;main;Vec<u8>::read;filemap_read_[k] 7\n",
            "outermost first"
        );
        let bytes = folded_stacks(&stacks(), FlameWeight::Bytes, 4096);
        assert!(bytes.contains("_[k] 28672\n"), "pages as bytes: {bytes}");
        let time = folded_stacks(&stacks(), FlameWeight::Time, 4096);
        assert!(time.contains("_[k] 70\n"), "microseconds: {time}");
    }

    #[test]
    fn recursion_and_deep_stacks_stay_within_the_picture() {
        let frame = |function: String| Frame {
            function: Some(function),
            ..Frame::default()
        };
        let mut stacks = stacks();
        stacks.stacks.truncate(1);
        stacks.stacks[0].frames = vec![frame("walk".into()); 200];
        let svg = flame_svg(&stacks, FlameWeight::Pages, 4096);
        assert_eq!(svg.matches("<title>walk:").count(), 1, "{svg}");
        let folded = folded_stacks(&stacks, FlameWeight::Pages, 4096);
        assert_eq!(folded.matches("walk").count(), 200, "all of them");
        stacks.stacks[0].frames = (0..200).map(|depth| frame(depth.to_string())).collect();
        let svg = flame_svg(&stacks, FlameWeight::Pages, 4096);
        assert!(svg.contains("<title>[155 more calls]: 3 pages"), "{svg}");
        assert_eq!(svg.matches("<g>").count(), MOST_CALLS + 1, "and all: {svg}");
    }

    #[test]
    fn flame_svg_escapes_names_and_draws_each_call_once() {
        let svg = flame_svg(&stacks(), FlameWeight::Pages, 4096);
        assert!(
            svg.contains("<title>Vec&lt;u8&gt;::read: 7 pages, 87.5 %</title>"),
            "{svg}"
        );
        assert_eq!(
            svg.matches("<title>main:").count(),
            1,
            "both stacks share it"
        );
        assert!(svg.ends_with("</svg>\n"), "it is complete");
        let empty = flame_svg(&Stacks::default(), FlameWeight::Time, 4096);
        assert!(
            empty.contains("<title>all: 0.000 s, 0.0 %</title>"),
            "{empty}"
        );
    }
}
