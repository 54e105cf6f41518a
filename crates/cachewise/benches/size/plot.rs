//! The plot of `size` with counted points on it.

use std::path::Path;

use serde_json::Value;

use crate::Outcome;

/// The color of the curve of fetched pages in the plot.
const CURVE: &str = "stroke=\"#005AB5\" stroke-width=\"2\" points=\"";

/// Adds points, sizes of the page cache in bytes and ratios, to the plot of a curve, whose rows are in a JSON document.
pub fn add_points(svg: &Path, json: &Path, points: &[(f64, f64)]) -> Outcome<()> {
    let text = std::fs::read_to_string(svg)?;
    let document: Value = serde_json::from_slice(&std::fs::read(json)?)?;
    let rows = document["rows"].as_array().ok_or("no rows")?;
    let point = |row: &Value| {
        let size = row["size_page_cache_bytes"].as_f64()?;
        Some((size, row["size_fetched_ratio"].as_f64()?))
    };
    let curve: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
    let (_, pixels) = text.split_once(CURVE).ok_or("the plot has no curve")?;
    let pixels = pixels.split('"').next().unwrap_or_default();
    let pixels: Vec<(f64, f64)> = pixels
        .split_whitespace()
        .filter_map(|pixel| pixel.split_once(','))
        .filter_map(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)))
        .collect();
    let place = |at: fn(&(f64, f64)) -> f64, value: f64| {
        let from = (at(curve.first()?), at(pixels.first()?));
        // The last row may be the memory of the machine, which the plot leaves out.
        let last = pixels.len().min(curve.len()).checked_sub(1)?;
        let to = (at(&curve[last]), at(&pixels[last]));
        Some(from.1 + (value - from.0) / (to.0 - from.0) * (to.1 - from.1))
    };
    let mut circles = String::new();
    for (size, ratio) in points {
        let x = place(|point| point.0, *size).ok_or("the plot has no points")?;
        let y = place(|point| point.1, *ratio).ok_or("the plot has no points")?;
        circles += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"none\" stroke=\"#000000\" stroke-width=\"2\">\
             <title>counted in a memory group: {:.1} %</title></circle>\n",
            ratio * 100.0
        );
    }
    std::fs::write(svg, text.replace("</svg>", &format!("{circles}</svg>")))?;
    Ok(())
}
