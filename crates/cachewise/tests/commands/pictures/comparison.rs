//! The rows of other tools in docs/kernels.md, as bars.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cachewise_view::ReadPart;

use super::drawn::escaped;

/// Pages of the file that `dd` reads.
const PAGES: u64 = 16_384;
const WIDTH: f64 = 420.0;

/// One bar: who says so, in which words, and pages cached, read ahead and missed.
struct Bar {
    who: &'static str,
    says: String,
    parts: [u64; 3],
}

/// Draws it.
pub fn drawn(to: &Path) {
    let table = fs::read_to_string(super::documentation().join("kernels.md")).expect("the table");
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 330\" role=\"img\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <title>What dd's reads of a file of 16,384 pages look like to cachewise and to cachestat</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n",
    );
    let mut y = 30.0;
    for (load, title) in [
        (
            "cold 4k",
            "dd reads 16,384 pages; none of them is cached (Linux 6.12)",
        ),
        ("warm 4k", "dd reads them again; all of them are cached"),
    ] {
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{y}\" font-weight=\"bold\">{title}</text>"
        );
        y += 12.0;
        for bar in bars(&table, load) {
            draw(&mut svg, &bar, y);
            y += 30.0;
        }
        y += 30.0;
    }
    for (place, part) in ReadPart::REQUESTED.iter().enumerate() {
        let x = 16.0 + 150.0 * place as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y:.0}\" width=\"14\" height=\"14\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            part.colors()[0],
            x + 20.0,
            y + 12.0,
            part.name()
        );
    }
    svg.push_str("</svg>\n");
    super::write(to, "comparison.svg", svg.as_bytes());
}

/// The bars of a load, from its row of the table for Linux 6.12.
fn bars(table: &str, load: &str) -> Vec<Bar> {
    let start = format!("6.12   {load}");
    let row = table.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("{start} is in docs/kernels.md"));
    // Columns are apart by two spaces or more.
    let cells: Vec<&str> = row
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    let [.., ours, _, bcc, libbpf] = cells[..] else {
        panic!("columns of {row}");
    };
    let number = |word: &str| {
        let mut words = ours
            .split([' ', ','])
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>();
        words.dedup();
        let place = words.iter().position(|one| one.starts_with(word))?;
        let place = place.checked_sub(1)?;
        words[place].parse::<u64>().ok()
    };
    let (missed, hits) = (number("missed").unwrap_or(0), number("hits").unwrap_or(0));
    let ahead = PAGES - missed - hits;
    assert!(missed + hits > 0, "{ours} is understood");
    let mut bars = vec![Bar {
        who: "cachewise",
        says: ours.to_owned(),
        parts: [hits, ahead, missed],
    }];
    for (who, cell) in [("bcc cachestat 0.31", bcc), ("libbpf-tools 0.31", libbpf)] {
        let (hits, misses) = cell.split_once(", ").expect("hits, misses");
        let [hits, misses] = [hits, misses].map(|text| text.parse::<u64>().expect("a number"));
        let ratio = hits * 100 / (hits + misses).max(1);
        bars.push(Bar {
            who,
            says: format!("{hits} hits, {misses} misses: {ratio} % hits"),
            parts: [hits, 0, misses],
        });
    }
    bars
}

fn draw(svg: &mut String, bar: &Bar, y: f64) {
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"{:.0}\">{}</text><rect x=\"170\" y=\"{y}\" width=\"{WIDTH}\" height=\"20\" fill=\"#eaeef2\"/>",
        y + 15.0,
        escaped(bar.who)
    );
    let mut x = 170.0;
    for (pages, part) in bar.parts.iter().zip(ReadPart::REQUESTED) {
        let width = *pages as f64 / PAGES as f64 * WIDTH;
        if *pages > 0 {
            // A few pages are still seen.
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"20\" fill=\"{}\"/>",
                width.max(1.5),
                part.colors()[0]
            );
        }
        x += width;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
        180.0 + WIDTH,
        y + 15.0,
        escaped(&bar.says)
    );
}
