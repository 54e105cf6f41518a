//! The plot: what each cycle read, strategy by strategy, one field for each limit.

use std::path::Path;

use cachewise_units::Bytes;
use plotters::prelude::*;

use crate::strategy::Strategy;
use crate::{Case, Outcome};

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 380;
const LEGEND: u32 = 230;

/// Writes an SVG with the cycles of all cases; `data` is what a cycle has to read.
pub fn draw(path: &Path, cases: &[Case], data: Bytes) -> Outcome<()> {
    let fields: Vec<&[Case]> = cases.chunk_by(|one, two| one.limit == two.limit).collect();
    let root = SVGBackend::new(path, (WIDTH, HEIGHT * fields.len() as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, cases) in root.split_evenly((fields.len(), 1)).iter().zip(fields) {
        let cycles = cases
            .iter()
            .map(|case| case.cycles.len())
            .max()
            .unwrap_or(1);
        let most = data.0 as f64 / MIB * 1.05;
        let caption = format!("memory {} for {data} of files", cases[0].limit);
        let (area, legend) = area.split_horizontally(WIDTH - LEGEND);
        let mut chart = ChartBuilder::on(&area)
            .caption(caption, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(1..cycles.max(2), 0.0..most)?;
        chart
            .configure_mesh()
            .x_desc("cycle")
            .y_desc("MiB read from the disk")
            .y_label_formatter(&|mib| format!("{mib:.0}"))
            .max_light_lines(1)
            .draw()?;
        let bound = mib(cases[0].bound(data));
        chart.draw_series(DashedLineSeries::new(
            [(1, bound), (cycles, bound)],
            6,
            4,
            BLACK.stroke_width(1),
        ))?;
        let entry = |line: usize, name: &str, style: ShapeStyle| -> Outcome<()> {
            let y = 45 + 22 * line as i32;
            legend.draw(&PathElement::new([(5, y), (35, y)], style))?;
            let text = ("sans-serif", 14).into_text_style(&legend);
            legend.draw_text(name, &text, (42, y - 8))?;
            Ok(())
        };
        entry(0, "bound (dashed)", BLACK.stroke_width(1))?;
        for (line, case) in cases.iter().enumerate() {
            let style = style(case.strategy);
            let points = (1..).zip(case.cycles.iter().map(|cycle| mib(cycle.read)));
            chart.draw_series(LineSeries::new(points, style))?;
            entry(line + 1, case.strategy.name(), style)?;
        }
    }
    root.present()?;
    Ok(())
}

const MIB: f64 = (1 << 20) as f64;

fn mib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / MIB
}

/// A colour for each, from a palette that the colour-blind can tell apart; lines of what shares are thin.
fn style(strategy: Strategy) -> ShapeStyle {
    use cachewise_residency::order::{Keep, Mode};
    let (color, width) = match strategy {
        Strategy::InOrder => (RGBColor(90, 90, 90), 3),
        Strategy::FileSort => (RGBColor(213, 94, 0), 3),
        Strategy::ExtentsFirst => (RGBColor(230, 159, 0), 3),
        Strategy::Planned(mode, keep) => {
            let color = match mode {
                Mode::Free => RGBColor(0, 158, 115),
                Mode::Fixed => RGBColor(0, 114, 178),
                Mode::Shuffle(_) => RGBColor(204, 121, 167),
            };
            (color, if keep == Keep::Share { 1 } else { 3 })
        }
    };
    color.stroke_width(width)
}
