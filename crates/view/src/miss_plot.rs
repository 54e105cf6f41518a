//! Miss ratio by memory size, both linear from 0: as SVG, and as text for a terminal.

use std::io;

use cachewise_units::Bytes;
use plotters::prelude::*;

use crate::plot::{PlotLine, PlotMark};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 540;

const COLORS: [RGBColor; 2] = [RGBColor(0, 90, 181), RGBColor(220, 80, 30)];

/// Height of a text plot in lines.
const ROWS: usize = 12;

/// Width of the numbers on the left.
const LABELS: usize = 7;

/// Width of the seconds on the right.
const SECONDS: usize = 9;

/// Eighths of a character cell, from below.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The largest size and ratio.
fn ends(lines: &[PlotLine]) -> Option<(f64, f64)> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let size = points().map(|point| point.0).max_by(f64::total_cmp)?;
    let ratio = points().map(|point| point.1).max_by(f64::total_cmp)?;
    (size > 0.0 && size.is_finite() && ratio.is_finite()).then_some((size, ratio.max(0.01)))
}

/// The curves as an SVG; points are sizes in bytes and ratios. `seconds` are those lost at a ratio of 1, for the axis on
/// the right, if they are known.
///
/// # Errors
/// There are no points, or the library fails.
pub fn miss_svg(
    lines: &[PlotLine],
    marks: &[PlotMark],
    seconds: Option<f64>,
) -> io::Result<String> {
    let ends = ends(lines).ok_or_else(|| io::Error::other("there are no points to draw"))?;
    let mut svg = String::new();
    drawn(&mut svg, lines, marks, ends, seconds)
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(svg)
}

fn drawn(
    svg: &mut String,
    lines: &[PlotLine],
    marks: &[PlotMark],
    (size, ratio): (f64, f64),
    seconds: Option<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    title(&root, lines)?;
    let largest = marks.iter().map(|mark| mark.size).fold(size, f64::max);
    // In the unit of the largest size: the numbers at the axis are round in it.
    let unit = 1024_f64.powi((largest.log2() / 10.0) as i32);
    let largest = largest / unit;
    let high = ratio * 1.05;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_top(44)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .right_y_label_area_size(if seconds.is_some() { 64 } else { 0 })
        .build_cartesian_2d(0.0..largest * 1.02, 0.0..high)?
        .set_secondary_coord(0.0..largest * 1.02, 0.0..high * seconds.unwrap_or(1.0));
    chart
        .configure_mesh()
        .x_desc("page cache")
        .y_desc("% of requested pages")
        .x_label_formatter(&|size| Bytes((*size * unit) as u64).to_string())
        .y_label_formatter(&|ratio| percent(*ratio))
        .max_light_lines(1)
        .draw()?;
    if seconds.is_some() {
        chart
            .configure_secondary_axes()
            .y_desc("seconds lost")
            .y_label_formatter(&|seconds| short_seconds(*seconds))
            .draw()?;
    }
    let gray = RGBColor(120, 120, 120);
    for (number, mark) in marks.iter().enumerate() {
        let size = mark.size / unit;
        chart.draw_series(DashedLineSeries::new(
            [(size, 0.0), (size, high)],
            5,
            4,
            gray.stroke_width(1),
        ))?;
        let style = ("sans-serif", 13).into_font().color(&gray);
        // Names of neighbours below each other.
        let height = high * (0.97 - 0.05 * (number % 4) as f64);
        let place = (size + largest * 0.005, height);
        chart.draw_series([Text::new(mark.name.clone(), place, style)])?;
    }
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let points = line.points.iter();
        chart.draw_series(LineSeries::new(
            points.map(|(size, ratio)| (size / unit, *ratio)),
            color.stroke_width(2),
        ))?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(())
}

/// The title, and on its right the names of the lines, above the plot: within, they would hide marks or curves.
fn title(
    root: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    lines: &[PlotLine],
) -> Result<(), Box<dyn std::error::Error>> {
    /// Room for the name of a line, and for a piece of it.
    const ROOM: (i32, i32) = (210, 24);
    let text = "pages from devices, by size of the page cache";
    root.draw(&Text::new(text, (64, 14), ("sans-serif", 18)))?;
    let mut x = WIDTH as i32 - ROOM.0 * lines.len() as i32;
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        root.draw(&PathElement::new(
            [(x, 24), (x + ROOM.1, 24)],
            color.stroke_width(2),
        ))?;
        let name = (x + ROOM.1 + 8, 16);
        root.draw(&Text::new(line.name.clone(), name, ("sans-serif", 14)))?;
        x += ROOM.0;
    }
    Ok(())
}

/// A curve as an area of text, at most `width` wide, with blocks or in ASCII; nothing without room or points. `seconds`
/// as for [`miss_svg`].
#[must_use]
pub fn miss_text(
    line: &PlotLine,
    marks: &[PlotMark],
    seconds: Option<f64>,
    width: usize,
    blocks: bool,
) -> String {
    const NARROWEST: usize = 24;
    let right = seconds.map_or(0, |_| SECONDS + 1);
    let columns = width.saturating_sub(LABELS + 2 + right).min(100);
    let lines = std::slice::from_ref(line);
    let Some((size, ratio)) = ends(lines).filter(|_| columns >= NARROWEST) else {
        return String::new();
    };
    let heights: Vec<f64> = (0..columns)
        .map(|column| at(line, size * (column as f64 + 0.5) / columns as f64) / ratio)
        .map(|part| part * ROWS as f64)
        .collect();
    let column_of =
        |mark: &PlotMark| ((mark.size / size * columns as f64) as usize).min(columns - 1);
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = match row + 1 {
            ROWS => percent(ratio),
            _ if row == 0 => percent(0.0),
            top if top * 2 == ROWS => percent(ratio / 2.0),
            _ => String::new(),
        };
        let cells: String = heights
            .iter()
            .map(|height| cell(height - row as f64, blocks))
            .collect();
        let line = match seconds {
            Some(seconds) if !label.is_empty() => {
                let part = (row + 1) as f64 / ROWS as f64;
                let part = if row == 0 { 0.0 } else { part };
                let lost = short_seconds(seconds * ratio * part);
                format!("{label:>LABELS$} |{cells} {lost:>SECONDS$}")
            }
            _ => format!("{label:>LABELS$} |{cells}"),
        };
        text += &format!("{}\n", line.trim_end());
    }
    let mut axis = vec!['-'; columns];
    for mark in marks.iter().filter(|mark| mark.size <= size) {
        axis[column_of(mark)] = '^';
    }
    let axis: String = axis.into_iter().collect();
    text += &format!("{:>LABELS$} +{axis}\n", "");
    let largest = Bytes(size as u64).to_string();
    let room = columns.saturating_sub(largest.chars().count() + 1);
    text += &format!("{:>LABELS$}  {:room$} {largest}\n", "", "0");
    for mark in marks.iter().filter(|mark| mark.size <= size) {
        let column = column_of(mark);
        let size = Bytes(mark.size as u64);
        let name = format!("^ {} ({size})", mark.name);
        let column = column.min(columns.saturating_sub(name.chars().count()));
        text += &format!("{:>LABELS$}  {:column$}{name}\n", "", "");
    }
    text
}

/// A cell that is filled up to this height.
fn cell(height: f64, blocks: bool) -> char {
    let eighths = (height.clamp(0.0, 1.0) * 8.0).round() as usize;
    match blocks {
        true => EIGHTHS[eighths],
        false if eighths >= 4 => '#',
        false if eighths > 0 => '.',
        false => ' ',
    }
}

/// The ratio at a size: by a straight line between the points around it.
fn at(line: &PlotLine, size: f64) -> f64 {
    let after = line.points.partition_point(|point| point.0 < size);
    match (
        line.points.get(after.wrapping_sub(1)),
        line.points.get(after),
    ) {
        (Some(one), Some(other)) if other.0 > one.0 => {
            one.1 + (other.1 - one.1) * (size - one.0) / (other.0 - one.0)
        }
        (_, Some(point)) | (Some(point), None) => point.1,
        (None, None) => 0.0,
    }
}

fn short_seconds(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".into(),
        seconds if seconds < 10.0 => format!("{seconds:.2} s"),
        seconds if seconds < 100.0 => format!("{seconds:.1} s"),
        seconds => format!("{seconds:.0} s"),
    }
}

fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        percent if percent > 0.0 && percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> PlotLine {
        PlotLine {
            name: "two lists".into(),
            points: vec![(1048576.0, 0.8), (104857600.0, 0.2), (209715200.0, 0.1)],
        }
    }

    fn marks() -> Vec<PlotMark> {
        vec![PlotMark {
            name: "limit".into(),
            size: 104857600.0,
        }]
    }

    #[test]
    fn miss_text_fits_and_names_the_marks() {
        for blocks in [true, false] {
            let text = miss_text(&line(), &marks(), Some(40.0), 80, blocks);
            assert!(text.contains("32.0 s") && text.contains("16.0 s"), "{text}");
            assert!(text.contains("^ limit (100.0 MiB)"), "{text}");
            assert!(
                text.contains("80 %") && text.contains("200.0 MiB"),
                "{text}"
            );
            assert!(
                text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
            assert_eq!(text.is_ascii(), !blocks, "{text}");
        }
        let text = miss_text(&line(), &marks(), None, 80, false);
        assert!(!text.contains(" s\n"), "no price, no seconds: {text}");
        assert_eq!(miss_text(&line(), &marks(), None, 20, true), "", "no room");
    }

    #[test]
    fn ratio_between_points_lies_on_a_line() {
        let between = at(&line(), 157286400.0);
        assert!((between - 0.15).abs() < 1e-9, "{between}");
        assert_eq!(at(&line(), 1.0), 0.8);
        assert_eq!(at(&line(), 1e12), 0.1);
    }

    #[test]
    fn miss_svg_names_curves_and_marks() {
        let svg = miss_svg(&[line()], &marks(), Some(40.0)).unwrap();
        assert!(svg.trim_end().ends_with("</svg>"));
        for name in ["two lists", "limit", "seconds lost"] {
            assert!(svg.contains(name), "{name} is in it");
        }
        let svg = miss_svg(&[line()], &marks(), None).unwrap();
        assert!(!svg.contains("seconds lost"), "their price is unknown");
        assert!(miss_svg(&[], &[], None).is_err());
    }
}
