//! A screen of a terminal as SVG.

use std::fmt::Write as _;

use vt100::{Cell, Color, Screen};

/// Size of a cell of the screen, in units of the picture.
const CELL: (f64, f64) = (8.4, 18.0);
/// Around the text.
const MARGIN: f64 = 12.0;
const BACKGROUND: &str = "#15191e";
const TEXT: &str = "#d6dbe1";
/// Colours 0 to 15, as a terminal with a dark background has them.
const PALETTE: [&str; 16] = [
    "#15191e", "#e0606c", "#7fbf6a", "#e5c07b", "#5aa5e6", "#c78ae0", "#56b6c2", "#d6dbe1",
    "#6b7480", "#ff7a85", "#98d982", "#ffd68a", "#7cbcff", "#dda6f2", "#74d1dd", "#ffffff",
];

/// One scene: a screen, and for how many seconds a moving picture shows it.
pub struct Scene {
    pub screen: Screen,
    pub seconds: f64,
}

/// Draws the first `most` lines of scenes one after the other, again and again; a single one stands still.
pub fn drawn(title: &str, scenes: &[Scene], most: u16) -> String {
    let lines = scenes.iter().map(|scene| used_lines(&scene.screen)).max();
    let lines = lines.unwrap_or(1).min(most);
    let columns = scenes.first().map_or(80, |scene| scene.screen.size().1);
    let (width, height) = (
        f64::from(columns) * CELL.0 + 2.0 * MARGIN,
        f64::from(lines) * CELL.1 + 2.0 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{TEXT}\">\n",
        escaped(title)
    );
    let whole: f64 = scenes.iter().map(|scene| scene.seconds).sum();
    let mut begin = 0.0;
    for scene in scenes {
        svg.push_str("<g>");
        if scenes.len() > 1 {
            let (from, to) = (begin / whole, (begin + scene.seconds) / whole);
            // Hidden before and after its time.
            let (times, values) = match begin > 0.0 {
                true => (format!("0;{from:.4};{to:.4}"), "hidden;visible;hidden"),
                false => (format!("0;{to:.4}"), "visible;hidden"),
            };
            let _ = write!(
                svg,
                "<animate attributeName=\"visibility\" calcMode=\"discrete\" dur=\"{whole}s\" repeatCount=\"indefinite\" \
                 keyTimes=\"{times}\" values=\"{values}\"/>"
            );
        }
        svg.push('\n');
        draw(&mut svg, &scene.screen, lines);
        svg.push_str("</g>\n");
        begin += scene.seconds;
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Lines down to the last one with text.
fn used_lines(screen: &Screen) -> u16 {
    let (rows, columns) = screen.size();
    let is_used = |row: &u16| {
        (0..columns).any(|column| {
            let cell = screen.cell(*row, column);
            cell.is_some_and(|cell| !cell.contents().trim().is_empty())
        })
    };
    (0..rows).rev().find(is_used).map_or(1, |row| row + 1)
}

fn draw(svg: &mut String, screen: &Screen, lines: u16) {
    let (_, columns) = screen.size();
    for row in 0..lines {
        let mut column = 0;
        while column < columns {
            let Some(first) = screen.cell(row, column) else {
                break;
            };
            let look = Look::of(first);
            let mut text = String::new();
            let begin = column;
            while let Some(cell) = screen.cell(row, column)
                && Look::of(cell) == look
            {
                let content = cell.contents();
                text.push_str(if content.is_empty() { " " } else { content });
                column += 1;
            }
            draw_run(svg, row, begin..column, &text, &look);
        }
    }
}

fn draw_run(svg: &mut String, row: u16, cells: std::ops::Range<u16>, text: &str, look: &Look) {
    let x = MARGIN + f64::from(cells.start) * CELL.0;
    let y = MARGIN + f64::from(row) * CELL.1;
    if let Some(behind) = &look.behind {
        let width = f64::from(cells.len() as u16) * CELL.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{behind}\"/>",
            CELL.1
        );
    }
    let (start, shown) = (text.len() - text.trim_start().len(), text.trim());
    if shown.is_empty() {
        return;
    }
    let x = x + text[..start].chars().count() as f64 * CELL.0;
    let width = shown.chars().count() as f64 * CELL.0;
    let weight = if look.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let fill = match &look.colour {
        Some(colour) => format!(" fill=\"{colour}\""),
        None => String::new(),
    };
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"{weight}{fill}>{}</text>",
        y + 14.0,
        // Viewers draw several spaces as one.
        escaped(&shown.replace(' ', "\u{a0}"))
    );
}

/// How cells look.
#[derive(PartialEq)]
struct Look {
    /// `None`: that of text.
    colour: Option<String>,
    behind: Option<String>,
    bold: bool,
}

impl Look {
    fn of(cell: &Cell) -> Look {
        let (mut colour, mut behind) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        if cell.inverse() {
            (colour, behind) = (
                Some(behind.unwrap_or(BACKGROUND.to_owned())),
                Some(colour.unwrap_or(TEXT.to_owned())),
            );
        }
        if cell.dim() && colour.is_none() {
            colour = Some(PALETTE[8].to_owned());
        }
        Look {
            colour,
            behind,
            bold: cell.bold(),
        }
    }
}

fn colour(colour: Color) -> Option<String> {
    /// Levels of the colours 16 to 231 (xterm).
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match colour {
        Color::Default => None,
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        Color::Idx(index @ 0..=15) => Some(PALETTE[usize::from(index)].to_owned()),
        Color::Idx(index @ 16..=231) => {
            let index = usize::from(index - 16);
            let [red, green, blue] = [index / 36, index / 6 % 6, index % 6].map(|at| LEVELS[at]);
            Some(format!("#{red:02x}{green:02x}{blue:02x}"))
        }
        Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
    }
}

/// Text as XML has it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
