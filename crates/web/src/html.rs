//! Text that is made safe: names come from outside.

use std::borrow::Cow;

use cachewise_model::Finding;

/// A text between tags, or in a quoted attribute.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            character if acts(character) => safe.extend(character.escape_default()),
            character => safe.push(character),
        }
    }
    Cow::Owned(safe)
}

/// A link to the page that explains a finding.
pub(crate) fn page_link(finding: &Finding) -> String {
    format!(
        "Explained by <a href=\"{}\" rel=\"noreferrer\">{}</a>",
        text(&finding.page()),
        text(finding.id)
    )
}

/// Whether a character does something: markup, control characters, and those that turn the direction of
/// what follows, so that a name reads as another one.
fn acts(character: char) -> bool {
    matches!(character, '<' | '>' | '&' | '"' | '\'' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || character.is_control()
}

/// JSON in a script element: what could end the element is written otherwise.
pub(crate) fn json_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}
