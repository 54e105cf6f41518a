//! Curves of latency by size, both by their logarithms: as SVG, and as text for a terminal.

use std::io;

use cachewise_units::Bytes;
use plotters::prelude::*;

/// One curve.
#[derive(Debug, Clone)]
pub struct PlotLine {
    /// Its name.
    pub name: String,
    /// Sizes in bytes and times in seconds, both above 0; sizes rise.
    pub points: Vec<(f64, f64)>,
}

/// A named size.
#[derive(Debug, Clone)]
pub struct PlotMark {
    /// Its name.
    pub name: String,
    /// In bytes.
    pub size: f64,
}

const WIDTH: u32 = 960;
const HEIGHT: u32 = 540;

/// Colours of different brightness.
const COLORS: [RGBColor; 2] = [RGBColor(0, 90, 181), RGBColor(220, 80, 30)];

/// Characters of the lines on a terminal, and of their crossings.
const SIGNS: [char; 2] = ['o', '+'];
const BOTH: char = '*';

/// Height of a text plot in lines.
const ROWS: usize = 16;

/// Width of the numbers on the left.
const LABELS: usize = 9;

/// Range of the points.
struct Bounds {
    size: (f64, f64),
    nanoseconds: (f64, f64),
}

fn bounds(lines: &[PlotLine]) -> Option<Bounds> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let ends = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let low = points().map(of).min_by(f64::total_cmp)?;
        let high = points().map(of).max_by(f64::total_cmp)?;
        (low > 0.0 && high.is_finite()).then_some((low, high.max(low * 1.01)))
    };
    let (low, high) = ends(&|point| point.1 * 1e9)?;
    Some(Bounds {
        size: ends(&|point| point.0)?,
        nanoseconds: (low * 0.8, high * 1.25),
    })
}

/// The curves as an SVG.
///
/// # Errors
/// There are no points, or the library fails.
pub fn latency_svg(lines: &[PlotLine], marks: &[PlotMark]) -> io::Result<String> {
    let bounds = bounds(lines).ok_or_else(|| io::Error::other("there are no points to draw"))?;
    let mut svg = String::new();
    drawn(&mut svg, lines, marks, &bounds).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(svg)
}

fn drawn(
    svg: &mut String,
    lines: &[PlotLine],
    marks: &[PlotMark],
    bounds: &Bounds,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (low, high) = bounds.nanoseconds;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "latency of a load, by how much memory it is in",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (bounds.size.0.log2()..bounds.size.1.log2()).step(1.0),
            (low..high).log_scale(),
        )?;
    let doublings = (bounds.size.1 / bounds.size.0).log2().ceil().max(1.0);
    chart
        .configure_mesh()
        .x_desc("size")
        .y_desc("ns")
        .x_labels(doublings as usize / 2 + 1)
        .x_label_formatter(&|exponent| size_text(2f64.powf(*exponent)))
        .y_label_formatter(&|ns| ns_text(*ns))
        .max_light_lines(1)
        .draw()?;
    let gray = RGBColor(120, 120, 120);
    for mark in marks {
        let at = mark.size.max(1.0).log2();
        chart.draw_series(DashedLineSeries::new(
            [(at, low), (at, high)],
            5,
            4,
            gray.stroke_width(1),
        ))?;
        let style = ("sans-serif", 13).into_font().color(&gray);
        chart.draw_series([Text::new(
            mark.name.clone(),
            (at + 0.08, high * 0.85),
            style,
        )])?;
    }
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let points = line
            .points
            .iter()
            .map(|(size, seconds)| (size.log2(), seconds * 1e9));
        let color = *color;
        chart
            .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], color.stroke_width(2)));
        chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleLeft)
        .margin(12)
        .legend_area_size(32)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.9))
        .border_style(gray)
        .draw()?;
    root.present()?;
    drop(chart);
    drop(root);
    Ok(())
}

/// The curves as text, at most `width` wide; nothing without room or points.
#[must_use]
pub fn latency_text(lines: &[PlotLine], marks: &[PlotMark], width: usize) -> String {
    const NARROWEST: usize = 24;
    let columns = width.saturating_sub(LABELS + 2).min(100);
    let Some(bounds) = bounds(lines).filter(|_| columns >= NARROWEST) else {
        return String::new();
    };
    let place = |value: f64, (low, high): (f64, f64), count: usize| {
        let part = (value / low).ln() / (high / low).ln();
        (part * (count - 1) as f64)
            .round()
            .clamp(0.0, (count - 1) as f64) as usize
    };
    let mut grid = vec![vec![' '; columns]; ROWS];
    for mark in marks
        .iter()
        .filter(|mark| (bounds.size.0..=bounds.size.1).contains(&mark.size))
    {
        let column = place(mark.size, bounds.size, columns);
        for row in &mut grid {
            row[column] = ':';
        }
        for (offset, sign) in mark.name.chars().enumerate() {
            if let Some(cell) = grid[0].get_mut(column + 1 + offset) {
                *cell = sign;
            }
        }
    }
    for (line, sign) in lines.iter().zip(SIGNS.into_iter().cycle()) {
        for (size, seconds) in &line.points {
            let row = ROWS - 1 - place(seconds * 1e9, bounds.nanoseconds, ROWS);
            let cell = &mut grid[row][place(*size, bounds.size, columns)];
            *cell = match *cell {
                other if SIGNS.contains(&other) && other != sign => BOTH,
                _ => sign,
            };
        }
    }
    let mut text = String::new();
    for (row, cells) in grid.iter().enumerate() {
        let (low, high) = bounds.nanoseconds;
        let part = (ROWS - 1 - row) as f64 / (ROWS - 1) as f64;
        let label = match row % 3 {
            0 => format!("{} ns", ns_text(low * (high / low).powf(part))),
            _ => String::new(),
        };
        let cells: String = cells.iter().collect();
        text += &format!("{label:>LABELS$} |{}\n", cells.trim_end());
    }
    text += &format!("{:>LABELS$} +{}\n", "", "-".repeat(columns));
    text += &format!("{:>LABELS$}  {}\n", "", axis(bounds.size, columns));
    let names: Vec<String> = lines
        .iter()
        .zip(SIGNS.into_iter().cycle())
        .map(|(line, sign)| format!("{sign} {}", line.name))
        .collect();
    text += &format!("{:>LABELS$}  {}, {BOTH} both\n", "", names.join(", "));
    text
}

/// Sizes below a plot, as many as fit.
fn axis((low, high): (f64, f64), columns: usize) -> String {
    let mut line = String::new();
    let mut exponent = low.log2().ceil();
    while exponent <= high.log2() {
        let part = (exponent - low.log2()) / (high / low).log2();
        let at = (part * (columns - 1) as f64).round() as usize;
        let label = size_text(2f64.powf(exponent));
        if at >= line.len() + usize::from(!line.is_empty()) && at + label.len() <= columns {
            line += &" ".repeat(at - line.len());
            line += &label;
        }
        exponent += 2.0;
    }
    line
}

/// `32K`, `1M`: short, because there are many.
fn size_text(size: f64) -> String {
    let text = Bytes(size.round() as u64).to_string();
    text.replace(".0 ", "").replace(' ', "").replace("iB", "")
}

fn ns_text(ns: f64) -> String {
    match ns {
        ns if ns < 10.0 => format!("{ns:.1}"),
        _ => format!("{ns:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<PlotLine> {
        let points = |factor: f64| {
            let sizes = (12..=28).map(|exponent| 2f64.powi(exponent));
            sizes
                .map(|size| {
                    let seconds = if size <= 32768.0 { 1e-9 } else { 1e-7 * factor };
                    (size, seconds)
                })
                .collect()
        };
        vec![
            PlotLine {
                name: "page-local".into(),
                points: points(1.0),
            },
            PlotLine {
                name: "random".into(),
                points: points(2.0),
            },
        ]
    }

    fn marks() -> Vec<PlotMark> {
        vec![PlotMark {
            name: "L1d".into(),
            size: 32768.0,
        }]
    }

    #[test]
    fn latency_text_draws_lines_marks_and_axes() {
        let text = latency_text(&lines(), &marks(), 80);
        assert!(text.contains(":L1d"), "the mark has its name: {text}");
        assert!(
            text.contains("* both") && text.contains('o') && text.contains('+'),
            "{text}"
        );
        assert!(
            text.contains("4K") && text.contains("1M"),
            "sizes below: {text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "it fits: {text}"
        );
        assert_eq!(latency_text(&lines(), &marks(), 20), "", "no room, no plot");
        assert_eq!(latency_text(&[], &[], 80), "", "nothing to draw");
    }

    #[test]
    fn latency_svg_names_the_curves() {
        let svg = latency_svg(&lines(), &marks()).unwrap();
        assert!(svg.trim_end().ends_with("</svg>"), "it is complete");
        for name in ["page-local", "random", "L1d", "1M"] {
            assert!(svg.contains(name), "{name} is in it");
        }
        assert!(
            latency_svg(&[], &[]).is_err(),
            "nothing to draw is an error"
        );
    }
}
