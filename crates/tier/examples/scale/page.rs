//! Tables in a page of the documentation, between marks that name them.

use std::fs;
use std::io;
use std::path::Path;

/// Puts each table where the page has `<!-- scale: NAME -->`, up to `<!-- end -->`.
pub fn write(file: &Path, tables: &[(&str, String)]) -> io::Result<()> {
    let page = fs::read_to_string(file)?;
    let page = replaced(&page, tables).map_err(io::Error::other)?;
    fs::write(file, page)
}

/// The page with these tables.
pub fn replaced(page: &str, tables: &[(&str, String)]) -> Result<String, String> {
    let mut page = page.to_owned();
    for (name, table) in tables {
        let begin = format!("<!-- scale: {name} -->\n");
        let missing = || format!("the page has no place for {name}: {begin}");
        let (before, rest) = page.split_once(&begin).ok_or_else(missing)?;
        let (_, after) = rest.split_once("<!-- end -->").ok_or_else(missing)?;
        page = format!("{before}{begin}{table}<!-- end -->{after}");
    }
    Ok(page)
}
